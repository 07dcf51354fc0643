// Links of a network: the score of a pair of nodes, and the proposed links of a node.

import {byId, digits, make, post, showAnswers, warningsOf} from "./dom.js";
import {table} from "./node.js";

/** Score the pair in the fields, or propose links of the first node. */
export async function predictLinks(models) {
  const source = byId("source").value.trim(), target = byId("target").value.trim();
  const status = byId("link-status");
  if (!source) return;
  if (!models.length) {
    status.textContent = "Choose a model of links above.";
    return;
  }
  status.textContent = "Predicting …";
  const answers = await Promise.allSettled(models.map((model) => target
    ? post("/link", {source, target, model: model.name}) : post("/links", {name: source, model: model.name})));
  const cardOf = (model, answer) => make("article", {class: "card"}, make("h3", {}, model.name), ...warningsOf(model),
    ...(target ? pairOf(answer) : [proposals(model, answer)]));
  const sentenceOf = (model, answer) => target ? `${model.name}: probability ${digits(answer.probability)}.`
    : `${model.name} proposes ${answer.links.length} link${answer.links.length === 1 ? "" : "s"} of ${source}.`;
  showAnswers(models, answers, byId("links"), status, cardOf, sentenceOf);
}

function pairOf({source, target, score, probability, linked}) {
  return [
    make("p", {class: "value"}, digits(probability)),
    make("p", {}, `Probability that ${source} and ${target} are linked, if half of the pairs were links. Score: ${digits(score)}.`),
    make("p", {class: "muted"}, linked ? "The graph has this link, and the score reads it." : "The graph does not have this link."),
  ];
}

function proposals({warnings}, {name, links}) {
  const word = warnings.length ? " (not reliable)" : "";
  return table(`Proposed links of ${name}`, ["node", "score", "probability"],
    links.map((each) => [each.name, digits(each.score), digits(each.probability) + word]));
}
