// One molecule: its predictions by the chosen models, side by side.

import {byId, digits, make, moleculePicture, post, svgAddress, themed} from "./dom.js";

let latest = 0, drawn = null;

const smilesFields = () => [byId("smiles"), ...byId("more-fields").querySelectorAll("[data-molecule]")];

/** Return the field that the structure editor changes: the field of SMILES that was used last. */
export const drawnField = () => (drawn && drawn.isConnected ? drawn : byId("smiles"));

/** Show a field for each molecule of a row and for each descriptor column of the chosen models. */
export function showFields(models) {
  const count = Math.max(1, ...models.map((model) => model.smiles_columns.length));
  const names = [...new Set(models.flatMap((model) => model.descriptors))];
  const values = new Map([...byId("more-fields").querySelectorAll("input")].map((field) => [field.name, field.value]));
  const field = (id, name, label, attributes) => make("span", {class: "field"},
    make("label", {for: id}, label),
    make("input", {id, name, type: "text", autocomplete: "off", spellcheck: "false",
      value: values.get(name) || null, ...attributes}));
  byId("more-fields").replaceChildren(
    ...Array.from({length: count - 1}, (_, i) =>
      field(`smiles-${i + 2}`, `molecule ${i + 2}`, `SMILES of molecule ${i + 2}`, {"data-molecule": i + 2, autocapitalize: "off"})),
    ...names.map((name, i) => field(`value-${i}`, `column ${name}`, name, {"data-column": name, inputmode: "decimal"})));
  const reads = models.some((model) => model.reaction) ? "SMILES of the molecule, or reaction A>>B" : "SMILES of the molecule";
  byId("smiles").labels[0].textContent = count > 1 ? "SMILES of molecule 1" : reads;
  for (const each of smilesFields()) each.onfocus = () => { drawn = each; };
}

/** Return the body of a request to a model, from the fields. */
function requestOf(model, target) {
  const texts = smilesFields().map((field) => field.value.trim());
  const count = model.smiles_columns.length;
  const columns = {};
  for (const name of model.descriptors) {
    const field = byId("more-fields").querySelector(`[data-column="${CSS.escape(name)}"]`);
    const text = field.value.trim().replace(",", ".");
    if (text && !isFinite(text)) throw new Error(`${name} must be a number or empty; it is ${field.value}`);
    columns[name] = text ? Number(text) : null;
  }
  return {smiles: count > 1 ? texts.slice(0, count) : texts[0], columns, model: model.name, target};
}

/** Predict the molecule in the fields with the chosen models. */
export async function predictMolecule(models, targets) {
  const smiles = byId("smiles").value.trim();
  const status = byId("molecule-status"), cards = byId("predictions");
  const number = ++latest;
  if (!smiles) return;
  if (!models.length) {
    status.textContent = "Choose a model of molecules above.";
    return;
  }
  status.textContent = "Predicting …";
  cards.setAttribute("aria-busy", "true");
  const answers = await Promise.allSettled(models.map(async (model) =>
    post("/explain", requestOf(model, targets(model)))));
  if (number !== latest) return;  // a newer request replaces this one
  cards.replaceChildren(...answers.map((answer, i) => answer.status === "fulfilled"
    ? predictionCard(models[i], answer.value) : errorCard(models[i], answer.reason)));
  cards.removeAttribute("aria-busy");
  status.textContent = answers.map((answer, i) => answer.status === "fulfilled"
    ? summary(models[i], answer.value) : `${models[i].name}: ${answer.reason.message}`).join(" ");
}

function errorCard(model, error) {
  return make("article", {class: "card"},
    make("h3", {}, model.name), make("p", {class: "error"}, error.message));
}

function predictedText(model, answer) {
  return model.task === "regression" ? digits(answer.values.prediction) : String(answer.values.prediction);
}

function summary(model, answer) {
  return `${model.name} predicts ${answer.target}: ${predictedText(model, answer)}.`;
}

function certainty(model, values) {
  if (model.task === "regression") {
    const low = values.lower === null ? "−∞" : digits(values.lower);
    return `90 % interval: ${low} to ${digits(values.upper)}`;
  }
  const name = Object.keys(values).find((column) => column.startsWith("probability"));
  const event = name === "probability" ? "class 1" : name.slice("probability_".length);
  const set = values.set ? String(values.set).split("|").join(", ") : "none";
  if (model.task === "multiclass") {
    const chances = Object.entries(values).filter(([column]) => column.startsWith("probability_"))
      .map(([column, value]) => `${column.slice("probability_".length)} ${digits(value)}`);
    return `Probabilities: ${chances.join(", ")}. Prediction set for 90 % coverage: ${set}`;
  }
  return `Probability of ${event}: ${digits(values[name])}. Prediction set for 90 % coverage: ${set}`;
}

function domainText(domain) {
  const similarity = `similarity ${domain.similarity.toFixed(2)} to the nearest training molecule`;
  const limit = `95 % of the test molecules reach ${domain.threshold.toFixed(2)}`;
  return domain.inside
    ? `✓ Within the applicability domain: ${similarity}; ${limit}.`
    : `⚠ Outside the applicability domain: ${similarity}; ${limit}. The interval may be too narrow.`;
}

function predictionCard(model, answer) {
  const card = make("article", {class: "card"},
    make("h3", {}, `${model.name}: ${answer.target}`),
    make("p", {class: "number"}, predictedText(model, answer)),
    answer.unit ? make("p", {class: "muted"}, `Unit: ${answer.unit}`) : null,
    make("p", {}, certainty(model, answer.values)));
  if (answer.domain)
    card.append(make("p", {class: `flag ${answer.domain.inside ? "inside" : "outside"}`}, domainText(answer.domain)));
  if (answer.percentile !== null)
    card.append(make("p", {}, `At least as high as ${answer.percentile.toFixed(0)} % of the measured training values.`));
  if (answer.values.outside)
    card.append(make("p", {class: "flag outside"},
      `⚠ Far outside the range of the training values: ${answer.values.outside.split("|").join(", ")}.`));
  card.append(answer.pictures ? weightsFigure(answer) : model.reaction ? reactionFigure(answer)
    : make("p", {class: "muted"}, "The molecule is too large for a picture."));
  const contributions = Object.entries(answer.contributions);
  if (contributions.length)
    card.append(make("h4", {}, "Contribution of each column, compared with its mean"),
      make("ul", {class: "contributions"}, ...contributions.map(([name, value]) => make("li", {}, `${name}: ${digits(value)}`))));
  if (answer.nearest.length) {
    card.append(make("h4", {}, "Nearest measured molecules"),
      make("ul", {class: "nearest"}, ...answer.nearest.map((each) => neighbour(each))));
  }
  return card;
}

function weightsFigure(answer) {
  const atoms = [...answer.atoms].sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight)).slice(0, 3);
  const strongest = atoms.map((each) => `${each.symbol}${each.atom} ${digits(each.weight)}`).join(", ");
  const alt = `The molecule with coloured atoms. Strongest contributions: ${strongest}.`;
  const pictures = [answer.pictures.light, answer.pictures.dark].map(svgAddress);
  const {top, random} = answer.faithfulness;
  return make("figure", {class: "weights"}, themed(...pictures, alt),
    make("figcaption", {}, `Contribution of each atom (${answer.method.replaceAll("_", " ")}). ` +
      `Deleting the strongest atoms lowers the prediction by ${digits(top)}, random atoms by ${digits(random)}.`));
}

function reactionFigure(answer) {
  return make("figure", {class: "weights"}, moleculePicture(answer.smiles, "The molecules of both sides of the reaction."),
    make("figcaption", {}, "Contributions of atoms are not computed for reactions."));
}

function neighbour(each) {
  const value = each.value === null ? "not measured" : digits(each.value);
  return make("li", {}, moleculePicture(each.smiles, `Structure of ${each.smiles}`),
    make("div", {}, make("strong", {}, value)),
    make("div", {class: "muted"}, `similarity ${each.similarity.toFixed(2)}`));
}
