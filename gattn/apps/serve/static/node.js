// A node of a network: its prediction, and the nodes that it attends to.

import {ask, byId, classText, digits, make, percent, post, setText, showAnswers, themed, warningsOf} from "./dom.js";

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
  showAnswers(models, answers, byId("nodes"), status, nodeCard,
    (model, answer) => `${model.name} predicts ${headline(answer.values)} for ${name}.`);
}

const headline = ({prediction, set}) => (set === undefined ? digits(prediction) : classText(prediction, set));

function nodeCard(model, answer) {
  const {values, neighbours} = answer;
  const chances = Object.entries(values).filter(([column]) => column.startsWith("probability_"))
    .sort((a, b) => b[1] - a[1]).slice(0, 5);
  const layers = neighbours.length ? neighbours[0].weights.length : 0;
  const titles = Array.from({length: layers}, (_, i) => `layer ${i + 1}`);
  const address = (dark) => `/node/picture?${new URLSearchParams({name: answer.name, model: model.name, dark})}`;
  return make("article", {class: "card"},
    make("h3", {}, `${model.name}: ${answer.name}`),
    make("p", {class: "value"}, headline(values)),
    make("p", {}, values.set === undefined
      ? `${percent(model)} interval: ${values.lower === null ? "−∞" : digits(values.lower)} to ${digits(values.upper)}`
      : `Most probable class: ${values.prediction}. Prediction set for ${percent(model)} coverage: ${setText(values.set)}`),
    ...warningsOf(model),
    make("div", {class: "beside"},
      make("div", {},
        chances.length ? table("Probabilities", ["class", "probability"],
          chances.map(([column, value]) => [column.slice("probability_".length), digits(value)])) : null,
        table(`The node attends to ${answer.degree} node${answer.degree === 1 ? "" : "s"}. The highest weights:`,
          ["node", "prediction", ...titles],
          neighbours.map((each) => [each.name === answer.name ? `${each.name} (itself)` : each.name,
            each.prediction === null ? "" : digits(each.prediction), ...each.weights.map(digits)]))),
      make("figure", {},
        themed(address(false), address(true), `Picture of ${answer.name} and the nodes that it attends to`),
        make("figcaption", {}, `${answer.name} and the nodes that it attends to most in the last layer; ` +
          "a thick line shows a high weight."))));
}

/** Return a table; columns after the first whose cells are numbers are aligned to the right. */
export function table(caption, columns, rows) {
  const numeric = columns.map((_, c) => c > 0 && rows.every((row) => !isNaN(String(row[c]).replace("−", "-"))));
  const kind = (c) => ({class: numeric[c] ? "number" : null});
  return make("div", {}, make("h4", {}, caption),
    make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption},
      make("table", {}, make("thead", {}, make("tr", {}, ...columns.map((name, c) => make("th", {scope: "col", ...kind(c)}, name)))),
        make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell, c) => make("td", kind(c), String(cell)))))))));
}
