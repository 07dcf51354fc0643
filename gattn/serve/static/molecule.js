// One molecule: its predictions by the chosen models, side by side.

import {byId, digits, make, moleculePicture, post, svgAddress, themed} from "./dom.js";

let latest = 0;

/** Predict the molecule in the field with the chosen models. */
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
  const answers = await Promise.allSettled(models.map((model) =>
    post("/explain", {smiles, model: model.name, target: targets(model)})));
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
    return `Probabilities: ${chances.join(", ")}. Classes that 90 % coverage leaves: ${set}`;
  }
  return `Probability of ${event}: ${digits(values[name])}. Classes that 90 % coverage leaves: ${set}`;
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
  card.append(answer.pictures ? weightsFigure(answer)
    : make("p", {class: "muted"}, "The molecule is too large for a picture."));
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

function neighbour(each) {
  const value = each.value === null ? "not measured" : digits(each.value);
  return make("li", {}, moleculePicture(each.smiles, `Structure of ${each.smiles}`),
    make("div", {}, make("strong", {}, value)),
    make("div", {class: "muted"}, `similarity ${each.similarity.toFixed(2)}`));
}
