// A node of a network: its prediction, and the nodes that it attends to.

import {ask, byId, classText, digits, make, percent, post, setText, themed, warningsOf} from "./dom.js";

/** Show the names that contain the text in a field. */
export async function suggest(models, field = "node", place = "names") {
  const text = byId(field).value;
  const lists = await Promise.all(models.map((model) =>
    ask(`/nodes?${new URLSearchParams({text, model: model.name})}`)));
  const names = [...new Set(lists.flat())];
  byId(place).replaceChildren(...names.map((name) => make("option", {value: name})));
}

/** Look up the node in the field. */
export async function lookUp(models) {
  const name = byId("node").value.trim(), status = byId("node-status");
  if (!name) return;
  if (!models.length) {
    status.textContent = "Choose a model of nodes above.";
    return;
  }
  const answers = await Promise.allSettled(models.map((model) => post("/node", {name, model: model.name})));
  byId("nodes").replaceChildren(...answers.map((answer, i) => answer.status === "fulfilled"
    ? nodeCard(models[i], answer.value)
    : make("article", {class: "card"}, make("h3", {}, models[i].name), make("p", {class: "error"}, answer.reason.message))));
  status.textContent = answers.map((answer, i) => answer.status === "fulfilled"
    ? `${models[i].name} predicts ${headline(models[i], answer.value.values)} for ${name}.` : answer.reason.message).join(" ");
}

const headline = (model, {prediction, set}) => (model.task === "regression" ? digits(prediction) : classText(prediction, set));

function nodeCard(model, answer) {
  const {values, neighbours} = answer;
  const card = make("article", {class: "card"},
    make("h3", {}, `${model.name}: ${answer.name}`),
    make("p", {class: "number"}, headline(model, values)),
    make("p", {}, model.task === "regression"
      ? `${percent(model)} interval: ${values.lower === null ? "−∞" : digits(values.lower)} to ${digits(values.upper)}`
      : `Most probable class: ${values.prediction}. Prediction set for ${percent(model)} coverage: ${setText(values.set)}`),
    ...warningsOf(model));
  const chances = Object.entries(values).filter(([column]) => column.startsWith("probability_"))
    .sort((a, b) => b[1] - a[1]).slice(0, 5);
  if (chances.length)
    card.append(table("Probabilities", ["class", "probability"],
      chances.map(([column, value]) => [column.slice("probability_".length), digits(value)])));
  const layers = neighbours.length ? neighbours[0].weights.length : 0;
  const titles = Array.from({length: layers}, (_, i) => `layer ${i + 1}`);
  card.append(table(`The node attends to ${answer.degree} nodes. The table shows the highest weights`,
    ["node", "prediction", ...titles],
    neighbours.map((each) => [each.name === answer.name ? `${each.name} (itself)` : each.name,
      each.prediction === null ? "" : digits(each.prediction), ...each.weights.map((weight) => weight.toFixed(3))])));
  const address = (dark) => `/node/picture?${new URLSearchParams({name: answer.name, model: model.name, dark})}`;
  card.append(make("figure", {},
    themed(address(false), address(true), `Picture of ${answer.name} and the nodes that it attends to`, {loading: "lazy"}),
    make("figcaption", {}, "Thick lines show high attention weights of the last layer.")));
  return card;
}

export function table(caption, columns, rows) {
  return make("div", {}, make("h4", {}, caption),
    make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption},
      make("table", {}, make("thead", {}, make("tr", {}, ...columns.map((name) => make("th", {scope: "col"}, name)))),
        make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, String(cell)))))))));
}
