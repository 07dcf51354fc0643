// The page of gattn serve: models, one molecule, a file, and a node.

import {ask, byId, digits, make} from "./dom.js";
import {draw, openEditor} from "./drawing.js";
import {predictMolecule} from "./molecule.js";
import {predictLinks} from "./link.js";
import {lookUp, suggest} from "./node.js";
import {openFile, predictLines} from "./table.js";

const PAUSE = 300;  // milliseconds after the last change of a drawing or of a name
const FIELDS = ["smiles", "node", "source", "target"];  // fields whose content is in a shared link
const EXAMPLES = {
  Aspirin: "CC(=O)Oc1ccccc1C(=O)O", Caffeine: "CN1C=NC2=C1C(=O)N(C)C(=O)N2C",
  Ibuprofen: "CC(C)Cc1ccc(cc1)C(C)C(=O)O", Paracetamol: "CC(=O)Nc1ccc(O)cc1",
};
let models = [], timer = 0;

const isChosen = (model) => byId("models").querySelector(`[data-model="${CSS.escape(model.name)}"]`).checked;
const chosen = (kind) => models.filter((model) => model.kind === kind && isChosen(model));
const targetOf = (model) => {
  const field = byId("models").querySelector(`[data-target="${CSS.escape(model.name)}"]`);
  return field ? field.value : model.targets[0];
};
const single = () => chosen("molecules").filter((model) => model.reads_smiles);  // others read tables only

/** Predict the lines of the field: explain one molecule, or predict several in a table. */
function predict() {
  const lines = byId("smiles").value.trim().split(/\n/).filter((line) => line.trim());
  byId("smiles").rows = Math.min(Math.max(lines.length, 1), 8);
  if (!lines.length) return;
  remember();
  if (!single().length) byId("molecule-status").textContent = "Choose a model of single molecules above.";
  else if (lines.length > 1) predictLines(lines.join("\n"), single());
  else predictMolecule(lines[0].trim(), single(), targetOf);
}
const lookUpNode = () => {
  remember();
  lookUp(chosen("nodes"));
};
const predictLink = () => {
  remember();
  predictLinks(chosen("links"));
};
const runs = {smiles: predict, node: lookUpNode, source: predictLink};

/** Write the fields and the chosen models into the address of the page, which can then be shared. */
function remember() {
  const values = FIELDS.map((name) => [name, byId(name).value.trim()]).filter(([, value]) => value);
  const others = models.filter((model) => !isChosen(model)).map((model) => ["without", model.name]);
  const targets = models.filter((model) => model.targets.length > 1 && model.kind === "molecules")
    .map((model) => [`target of ${model.name}`, targetOf(model)]);
  history.replaceState(null, "", `#${new URLSearchParams([...values, ...others, ...targets])}`);
  byId("share").hidden = !navigator.clipboard;
  byId("share").textContent = "Copy link to this answer";
}

/** Fill the fields from the address of the page, and predict. */
function recall() {
  const state = new URLSearchParams(location.hash.slice(1));
  for (const model of models) {
    byId("models").querySelector(`[data-model="${CSS.escape(model.name)}"]`).checked = !state.getAll("without").includes(model.name);
    const field = byId("models").querySelector(`[data-target="${CSS.escape(model.name)}"]`);
    if (field && state.has(`target of ${model.name}`)) field.value = state.get(`target of ${model.name}`);
  }
  for (const name of FIELDS) if (state.has(name)) byId(name).value = state.get(name);
  for (const [name, run] of Object.entries(runs)) if (state.has(name)) run();
}

const later = (run) => {
  clearTimeout(timer);
  timer = setTimeout(run, PAUSE);
};

function describe(model) {
  const rows = model.reads_smiles ? "molecules" : "rows";
  const what = model.kind === "molecules" ? `training ${rows}` : model.kind;
  const scores = Object.entries(model.test).slice(0, 2).map(([name, value]) => `${model.metrics[name]} ${digits(value)}`);
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
  const rerun = {molecules: predict, nodes: lookUpNode, links: predictLink}[model.kind];
  const notes = model.notes.map((note) => make("p", {class: "muted"}, note));
  return make("li", {class: "card"},
    make("label", {}, make("input", {type: "checkbox", checked: true, "data-model": model.name, on: {change: rerun}}),
      make("span", {}, model.name)),
    make("p", {class: "muted"}, describe(model)), target,
    notes.length > 1 ? make("details", {}, make("summary", {}, `${notes.length} notes`), ...notes) : notes[0] || null,
    make("div", {class: "links"}, ...links));
}

function connect() {
  for (const [form, run] of [["molecule", predict], ["node", lookUpNode], ["link", predictLink]])
    byId(`${form}-form`).addEventListener("submit", (event) => {
      event.preventDefault();
      if (form === "molecule") draw(byId("smiles").value);
      run();
    });
  byId("smiles").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    byId("molecule-form").requestSubmit();
  });
  const examples = {...EXAMPLES, "All four": Object.values(EXAMPLES).join("\n")};
  byId("examples").append(...Object.entries(examples).map(([name, smiles]) =>
    make("button", {type: "button", class: "small", on: {click: () => {
      byId("smiles").value = smiles;
      byId("molecule-form").requestSubmit();
    }}}, name)));
  byId("drawing").addEventListener("toggle", () => byId("drawing").open && openEditor((smiles) => {
    byId("smiles").value = smiles;
    later(predict);
  }));
  byId("node").addEventListener("input", () => later(() => suggest(chosen("nodes"))));
  for (const name of ["source", "target"])
    byId(name).addEventListener("input", () => later(() => suggest(chosen("links"), name, "link-names")));
  const file = byId("file"), drop = byId("drop");
  const open = (files) => files.length && openFile(files[0], () => chosen("molecules"));
  file.addEventListener("change", () => open(file.files));
  byId("file-form").addEventListener("submit", (event) => event.preventDefault());
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop") open(event.dataTransfer.files);
    });
  }
  byId("share").addEventListener("click", async () => {
    await navigator.clipboard.writeText(location.href);
    byId("share").textContent = "Link copied";
  });
  window.addEventListener("hashchange", recall);
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
  byId("molecule-section").hidden = !molecules.some((model) => model.reads_smiles);
  byId("node-section").hidden = !models.some((model) => model.kind === "nodes");
  byId("link-section").hidden = !models.some((model) => model.kind === "links");
  recall();
  document.body.dataset.ready = "true";
}

start();
