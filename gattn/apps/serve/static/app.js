// The page of gattn serve: models, one molecule, a file, and a node.

import {ask, byId, digits, make} from "./dom.js";
import {predictMolecule} from "./molecule.js";
import {predictLinks} from "./link.js";
import {lookUp, suggest} from "./node.js";
import {predictFile} from "./table.js";

const PAUSE = 300;  // milliseconds after the last change of a drawing or of a name
let models = [], timer = 0, frame = null;

const isChosen = (model) => byId("models").querySelector(`[data-model="${CSS.escape(model.name)}"]`).checked;
const chosen = (kind) => models.filter((model) => model.kind === kind && isChosen(model));
const targetOf = (model) => {
  const field = byId("models").querySelector(`[data-target="${CSS.escape(model.name)}"]`);
  return field ? field.value : model.targets[0];
};
const single = () => chosen("molecules").filter((model) => model.methods.length);  // others read tables only
const predict = () => predictMolecule(single(), targetOf);
const later = (run) => {
  clearTimeout(timer);
  timer = setTimeout(run, PAUSE);
};

function describe(model) {
  const rows = model.methods.length ? "molecules" : "rows";
  const what = model.kind === "molecules" ? `training ${rows}` : model.kind;
  const scores = Object.entries(model.test).slice(0, 2).map(([name, value]) => `${name} ${digits(value)}`);
  const size = model.size ? `${model.size.toLocaleString("en")} ${what}. ` : "";
  return `${model.task} of ${model.targets.slice(0, 5).join(", ")}. ${size}Test part: ${scores.join(", ") || "not measured"}.`;
}

function modelItem(model) {
  const titles = {report: "Report", card: "Model card", network: "Network"};
  const links = model.files.map((file) =>
    make("a", {href: `/models/${encodeURIComponent(model.name)}/${file}`, target: "_blank", rel: "noopener"},
      titles[file], make("span", {class: "muted"}, ` of ${model.name}`)));
  const target = model.kind === "molecules" && model.targets.length > 1 ? make("label", {class: "targets"},
    "Target ", make("select", {"data-target": model.name, on: {change: predict}},
      ...model.targets.map((name) => make("option", {value: name}, name)))) : null;
  const rerun = {molecules: predict, nodes: () => lookUp(chosen("nodes")), links: () => predictLinks(chosen("links"))}[model.kind];
  return make("li", {},
    make("label", {}, make("input", {type: "checkbox", checked: true, "data-model": model.name, on: {change: rerun}}),
      make("span", {}, model.name)),
    make("p", {class: "muted"}, describe(model)), target,
    ...model.notes.map((note) => make("p", {class: "muted"}, note)),
    make("div", {class: "links"}, ...links));
}

/** Load the structure editor when it is opened for the first time. */
function openEditor() {
  if (!byId("drawing").open || frame) return;
  frame = make("iframe", {src: "/editor", title: "Structure editor"});
  byId("editor-place").replaceChildren(frame);
}

function onEditorMessage(event) {
  if (!frame || event.source !== frame.contentWindow || event.origin !== origin) return;
  const type = event.data?.type;
  const value = String(event.data?.value || ""), field = byId("smiles");
  if (type === "ready" && field.value.trim())
    frame.contentWindow.postMessage({type: "set", value: field.value.trim()}, origin);
  if (type === "smiles" && value && value !== field.value) {
    field.value = value;
    later(predict);
  }
}

function connect() {
  byId("molecule-form").addEventListener("submit", (event) => {
    event.preventDefault();
    predict();
  });
  byId("drawing").addEventListener("toggle", openEditor);
  window.addEventListener("message", onEditorMessage);
  byId("node-form").addEventListener("submit", (event) => {
    event.preventDefault();
    lookUp(chosen("nodes"));
  });
  byId("node").addEventListener("input", () => later(() => suggest(chosen("nodes"))));
  byId("link-form").addEventListener("submit", (event) => {
    event.preventDefault();
    predictLinks(chosen("links"));
  });
  for (const name of ["source", "target"])
    byId(name).addEventListener("input", () => later(() => suggest(chosen("links"), name, "link-names")));
  const file = byId("file"), drop = byId("drop");
  file.addEventListener("change", () => file.files.length && predictFile(file.files[0], chosen("molecules")));
  byId("file-form").addEventListener("submit", (event) => event.preventDefault());
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer.files.length)
        predictFile(event.dataTransfer.files[0], chosen("molecules"));
    });
  }
}

async function start() {
  connect();
  try {
    models = await ask("/models");
  } catch (error) {
    byId("status").textContent = error.message;
    byId("status").hidden = false;
    return;
  }
  byId("models").replaceChildren(...models.map(modelItem));
  const molecules = models.filter((model) => model.kind === "molecules");
  byId("file-section").hidden = !molecules.length;
  byId("molecule-section").hidden = !molecules.some((model) => model.methods.length);
  byId("node-section").hidden = !models.some((model) => model.kind === "nodes");
  byId("link-section").hidden = !models.some((model) => model.kind === "links");
  if (molecules.length) {
    byId("column").placeholder = molecules[0].smiles_columns.join(", ");
  }
  document.body.dataset.ready = "true";
}

start();
