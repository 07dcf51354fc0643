// Elements and requests. All texts of the server and of the user become text nodes, never HTML.

/** Create an element; children are elements or texts. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, run] of Object.entries(value)) element.addEventListener(event, run);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Return the element of an identifier. */
export const byId = (id) => document.getElementById(id);

/** Send a request and return the JSON of its answer; throw an Error with the server's sentence. */
export async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch {
    throw new Error("The server does not answer. Is gattn serve still running?");
  }
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}

/** Send a JSON body. */
export const post = (address, body) =>
  ask(address, {method: "POST", body: JSON.stringify(body), headers: {"content-type": "application/json"}});

/** Return a number with three significant digits, or with more if they would round it up to 1. */
const rounded = (value, count = 3) =>
  value < 1 && Number(value.toPrecision(count)) === 1 ? rounded(value, count + 1) : value.toPrecision(count);

/** Return a number with three significant digits; whole numbers and those from 100 without a fraction. */
export function digits(value) {
  if (value === null || value === undefined) return "∞";
  if (typeof value !== "number") return String(value);
  const text = Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en")
    : Number.isInteger(value) ? String(value) : rounded(value);
  return text.replace("-", "−");
}

/** Return the classes of a prediction set as words. */
export const setText = (set) => (set ? String(set).split("|").join(", ") : "none");

const isSeveral = (predicted, set) => String(set || "").includes("|") && String(set) !== String(predicted);

/** Return a predicted class as a headline: "undecided" if the set holds several classes. */
export const classText = (predicted, set) => (isSeveral(predicted, set) ? "undecided" : String(predicted));

/** Return each different error once, after the names of the models that have it if others do not. */
export function faultsOf(faults, count) {
  const names = new Map();
  for (const [name, message] of faults) names.set(message, [...(names.get(message) || []), name]);
  return [...names].map(([message, list]) => list.length < count ? `${list.join(", ")}: ${message}` : message);
}

/** Show a card for each answer of several models, and a sentence for each answer and each error. */
export function showAnswers(models, answers, place, status, cardOf, sentenceOf) {
  const pairs = answers.map((answer, i) => [models[i], answer]);
  const fulfilled = pairs.filter(([, answer]) => answer.status === "fulfilled");
  const faults = pairs.filter(([, answer]) => answer.status === "rejected")
    .map(([model, answer]) => [model.name, answer.reason.message]);
  place.replaceChildren(...fulfilled.map(([model, answer]) => cardOf(model, answer.value)));
  status.replaceChildren(fulfilled.map(([model, answer]) => sentenceOf(model, answer.value)).join(" "),
    ...faultsOf(faults, models.length).map((text) => make("span", {class: "error"}, ` ${text}`)));
}

/** Return the coverage of a model's intervals and sets as a percentage. */
export const percent = (model) => `${Number((100 * model.coverage).toPrecision(3))} %`;

/** Return paragraphs with the warnings of a model. */
export const warningsOf = (model) => model.warnings.map((text) => make("p", {class: "flag outside"}, `⚠ ${text}`));

/** Return a picture that follows the colour scheme of the page. */
export function themed(light, dark, alt, options = {}) {
  return make("picture", {},
    make("source", {srcset: dark, media: "(prefers-color-scheme: dark)"}),
    make("img", {src: light, alt, ...options}));
}

/** Return the picture of a molecule without weights. */
export function moleculePicture(smiles, alt) {
  const address = (dark) => `/picture?${new URLSearchParams({smiles, dark})}`;
  return themed(address(false), address(true), alt, {loading: "lazy"});
}

/** Return the address of an SVG document as an image. */
export const svgAddress = (svg) => `data:image/svg+xml;base64,${btoa(String.fromCodePoint(...new TextEncoder().encode(svg)))}`;
