// One molecule: its predictions by the chosen models, side by side.

import {byId, classText, digits, make, moleculePicture, percent, post, setText, svgAddress, themed, warningsOf} from "./dom.js";

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
  const reactions = models.filter((model) => model.reaction).length;
  const reads = !reactions ? "SMILES of the molecule"
    : reactions === models.length ? "Reaction A>>B with atom map numbers" : "SMILES of the molecule, or reaction A>>B";
  const pair = models.find((model) => model.smiles_columns.length > 1);
  const named = (i) => pair && models.length === 1 ? `SMILES of molecule ${i + 1} (${pair.smiles_columns[i]})` : `SMILES of molecule ${i + 1}`;
  byId("smiles").labels[0].textContent = count > 1 ? named(0) + (reactions ? ", or reaction A>>B" : "") : reads;
  for (const each of byId("more-fields").querySelectorAll("[data-molecule]"))
    each.labels[0].textContent = named(Number(each.dataset.molecule) - 1);
  byId("molecule-title").textContent = reactions && reactions === models.length ? "One reaction" : "One molecule";
  byId("drawing").querySelector("summary").textContent = reactions ? "Draw the reaction" : "Draw the molecule";
  byId("smiles-hint").textContent = reactions
    ? "Paste a reaction such as [CH3:1][Br:2].[OH-:3]>>[CH3:1][OH:3].[Br-:2] and press Enter. Equal numbers mark the same atom on both sides. In the drawing, → separates the sides, and 123 numbers the atoms."
    : "Paste a SMILES and press Enter, or draw the molecule.";
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
  const {prediction, set} = answer.values;
  return model.task === "regression" ? digits(prediction) : classText(prediction, set);
}

const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);

function summary(model, answer) {
  return `${model.name} predicts ${answer.target}: ${withUnit(predictedText(model, answer), answer.unit)}.`;
}

function certainty(model, {values, unit}) {
  const likeliest = String(values.set).includes("|") ? `Most probable class: ${values.prediction}. ` : "";
  if (model.task === "regression") {
    const low = values.lower === null ? "−∞" : digits(values.lower);
    const infinite = values.lower === null || values.upper === null
      ? ` (the validation part is too small for a finite interval of ${percent(model)})` : "";
    return `${percent(model)} interval: ${withUnit(`${low} to ${digits(values.upper)}`, unit)}${infinite}`;
  }
  const name = Object.keys(values).find((column) => column.startsWith("probability"));
  const event = name === "probability" ? "class 1" : name.slice("probability_".length);
  const set = setText(values.set);
  if (model.task === "multiclass") {
    const chances = Object.entries(values).filter(([column]) => column.startsWith("probability_"))
      .map(([column, value]) => `${column.slice("probability_".length)} ${digits(value)}`);
    return `${likeliest}Probabilities: ${chances.join(", ")}. Prediction set for ${percent(model)} coverage: ${set}`;
  }
  return `${likeliest}Probability of ${event}: ${digits(values[name])}. Prediction set for ${percent(model)} coverage: ${set}`;
}

function domainText(domain) {
  const similarity = `similarity ${domain.similarity.toFixed(2)} to the nearest training molecule`;
  const limit = `95 % of the test molecules reach ${domain.threshold.toFixed(2)}`;
  return domain.inside
    ? `✓ Within the applicability domain: ${similarity}; ${limit}.`
    : `⚠ Outside the applicability domain: ${similarity}; ${limit}. The interval may be too narrow.`;
}

/** Return a table of the predicted quantiles, or null if the model predicts none. */
function quantileTable({values, unit, target}) {
  const levels = Object.keys(values).filter((name) => name.startsWith("quantile_"))
    .map((name) => [Number(name.slice("quantile_".length)), values[name]]).sort((a, b) => a[0] - b[0]);
  if (!levels.length) return null;
  const rows = levels.map(([level, value]) => make("tr", {},
    make("th", {scope: "row"}, `${digits(100 * level)} %${level === 0.5 ? " (median)" : ""}`),
    make("td", {class: "right"}, digits(value))));
  return make("table", {class: "quantiles"},
    make("caption", {}, `Predicted quantiles of ${target}`),
    make("thead", {}, make("tr", {}, make("th", {scope: "col"}, "probability of a lower value"),
      make("th", {scope: "col", class: "right"}, unit ? `value in ${unit}` : "value"))),
    make("tbody", {}, ...rows));
}

function predictionCard(model, answer) {
  const card = make("article", {class: "card"},
    make("h3", {}, `${model.name}: ${answer.target}`),
    make("p", {class: "number"}, predictedText(model, answer),
      answer.unit ? make("span", {class: "unit"}, ` ${answer.unit}`) : null),
    make("p", {}, certainty(model, answer)), ...warningsOf(model), quantileTable(answer));
  if (answer.domain)
    card.append(make("p", {class: `flag ${answer.domain.inside ? "inside" : "outside"}`}, domainText(answer.domain)));
  if (answer.percentile !== null)
    card.append(make("p", {}, `At least as high as ${answer.percentile.toFixed(0)} % of the measured training values.`));
  if (answer.values.outside)
    card.append(make("p", {class: "flag outside"},
      `⚠ Far outside the range of the training values: ${answer.values.outside.split("|").join(", ")}.`));
  card.append(answer.pictures ? weightsFigure(answer) : !model.methods.length ? rowFigure(answer)
    : make("p", {class: "muted"}, "The molecule is too large for a picture."));
  const contributions = Object.entries(answer.contributions);
  if (contributions.length)
    card.append(make("h4", {}, `Contribution of each column to ${answer.explained}, compared with the mean of the column`),
      make("ul", {class: "contributions"}, ...contributions.map(([name, value]) => make("li", {}, `${name}: ${digits(value)}`))));
  if (answer.nearest.length) {
    const what = model.reaction ? "reactions" : model.smiles_columns.length > 1 ? "rows of molecules" : "molecules";
    card.append(make("h4", {}, `Nearest measured ${what}, with their ${answer.target}`),
      make("ul", {class: model.reaction ? "nearest wide" : "nearest"}, ...answer.nearest.map((each) => neighbour(each, answer.unit))));
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
    make("figcaption", {}, `Contribution of each atom to ${answer.explained} (${answer.method.replaceAll("_", " ")}). ` +
      `Deleting the strongest atoms changes it by ${digits(-top)}, random atoms by ${digits(-random)}.`));
}

function rowFigure(answer) {
  return make("figure", {class: "weights"}, moleculePicture(answer.smiles, "The molecules of the row."),
    make("figcaption", {}, "Contributions of atoms are not computed for reactions and several molecules."));
}

function neighbour(each, unit) {
  const value = each.value === null ? "not measured" : withUnit(digits(each.value), unit);
  return make("li", {}, moleculePicture(each.smiles, `Structure of ${each.smiles}`),
    make("div", {}, make("strong", {}, value)),
    make("div", {class: "muted"}, `similarity ${each.similarity.toFixed(2)}`));
}
