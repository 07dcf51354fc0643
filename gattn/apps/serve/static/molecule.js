// One molecule: its predictions by the chosen models, side by side.

import {
  byId, classText, digits, make, moleculePicture, percent, post, setText, showAnswers, svgAddress, themed, warningsOf,
} from "./dom.js";

let latest = 0;

/** Predict and explain one molecule with the chosen models. */
export async function predictMolecule(smiles, models, targets) {
  const status = byId("molecule-status"), cards = byId("predictions");
  const number = ++latest;
  status.textContent = "Predicting …";
  cards.setAttribute("aria-busy", "true");
  const answers = await Promise.allSettled(models.map(async (model) =>
    post("/explain", {smiles, model: model.name, target: targets(model)})));
  if (number !== latest) return;  // a newer request replaces this one
  cards.removeAttribute("aria-busy");
  showAnswers(models, answers, cards, status, predictionCard, summary);
}

function predictedText(answer) {
  const {prediction, set} = answer.values;
  return set === undefined ? digits(prediction) : classText(prediction, set);
}

const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);

function summary(model, answer) {
  return `${model.name} predicts ${answer.target}: ${withUnit(predictedText(answer), answer.unit)}.`;
}

const probabilityOf = (values) => Object.keys(values).find((column) => column.startsWith("probability"));
const eventOf = (values) => probabilityOf(values).slice("probability_".length) || "class 1";

/** Return a sentence on the percentile of a prediction among drug-like molecules. */
function rank(model, values) {
  const subject = values.set === undefined ? "prediction" : `probability of ${eventOf(values)}`;
  return `The ${subject} is at least as high as for ${values.percentile} % of 500 drug-like molecules.`;
}

function certainty(model, {values, unit}) {
  const likeliest = String(values.set).includes("|") ? `Most probable class: ${values.prediction}. ` : "";
  if (values.set === undefined) {
    const low = values.lower === null ? "−∞" : digits(values.lower);
    return `${percent(model)} interval: ${withUnit(`${low} to ${digits(values.upper)}`, unit)}`;
  }
  const set = setText(values.set);
  const chances = Object.entries(values).filter(([column]) => column.startsWith("probability_"))
    .map(([column, value]) => `${column.slice("probability_".length)} ${digits(value)}`);
  if (chances.length > 1) {
    return `${likeliest}Probabilities: ${chances.join(", ")}. Prediction set for ${percent(model)} coverage: ${set}`;
  }
  return `${likeliest}Probability of ${eventOf(values)}: ${digits(values[probabilityOf(values)])}. Prediction set for ${percent(model)} coverage: ${set}`;
}

function domainFlag({inside, similarity, threshold}) {
  const [side, word] = inside ? ["inside", "✓ Inside"] : ["outside", "⚠ Outside"];
  const rest = inside ? "" : " The interval may be too narrow.";
  return make("p", {class: `flag ${side}`}, `${word} the applicability domain. `, make("span", {class: "muted"},
    `Similarity to the nearest training molecule ${similarity.toFixed(2)}; 95 % of the test molecules reach ` +
    `${threshold.toFixed(2)}.${rest}`));
}

function predictionCard(model, answer) {
  const card = make("article", {class: "card"},
    make("h3", {}, `${model.name}: ${answer.target}`),
    make("p", {class: "value"}, predictedText(answer),
      answer.unit ? make("span", {class: "unit"}, ` ${answer.unit}`) : null),
    make("p", {}, certainty(model, answer)), ...warningsOf(model));
  if (answer.domain) card.append(domainFlag(answer.domain));
  if ("percentile" in answer.values)
    card.append(make("p", {}, rank(model, answer.values)));
  card.append(answer.pictures ? weightsFigure(answer)
    : make("p", {class: "muted"}, "The molecule is too large for a picture."));
  if (answer.nearest.length) {
    card.append(make("h4", {}, `Nearest measured molecules, with their ${answer.target}`),
      make("ul", {class: "nearest"}, ...answer.nearest.map((each) => neighbour(each, answer.unit))));
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
    make("figcaption", {}, `Contribution of each atom to ${answer.explained}. ` +
      `Deleting the strongest atoms changes it by ${digits(-top)}, random atoms by ${digits(-random)}.`));
}

function neighbour(each, unit) {
  const value = each.value === null ? "not measured" : withUnit(digits(each.value), unit);
  return make("li", {}, moleculePicture(each.smiles, `Structure of ${each.smiles}`),
    make("div", {}, make("strong", {}, value)),
    make("div", {class: "muted"}, `similarity ${each.similarity.toFixed(2)}`));
}
