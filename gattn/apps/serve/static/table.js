// Several molecules: the predictions of the chosen models in one table that can be sorted and downloaded.

import {ask, byId, classText, digits, faultsOf, make, moleculePicture} from "./dom.js";

const PAGE = 25;  // rows on a page, so that few pictures are drawn
const FORMULA = /^[=+\-@\t\r]/, NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$|^-inf$/i;
const SMILES = /\.(smi|smiles)$/i, OTHERS = /\.(parquet|gz|zip|xlsx?|ods|sdf|mol)$/i;

/** Read a file that the user chose, show a choice of its columns of SMILES, and predict it. */
export async function openFile(file, models) {
  const status = byId("file-status"), place = byId("table-place"), columns = byId("columns");
  place.replaceChildren();
  columns.replaceChildren();
  if (OTHERS.test(file.name)) {
    status.textContent = `${file.name} is not a CSV or SMILES file: the command gattn molecules predict ` +
      "reads Parquet and compressed files; save other tables as CSV.";
    return;
  }
  if (SMILES.test(file.name)) {
    await predictTable(smilesTable(await file.text()), file.name, models(), () => ["smiles"], status, place);
    return;
  }
  const header = headerOf(await file.slice(0, 65536).text());
  const expected = models().map((model) => model.smiles_columns).sort((a, b) => b.length - a.length)[0] || ["smiles"];
  const fields = expected.map((name) => header.includes(name) ? name
    : expected.length > 1 ? "" : header.find((each) => /smiles|structure/i.test(each)) || "");
  let isChosen = false;
  // Without a choice, each model reads the columns of its training if the file has them.
  const fieldsOf = ({smiles_columns: names}) =>
    !isChosen && names.every((name) => header.includes(name)) ? names : fields.slice(0, names.length);
  const run = () => {
    const lacking = expected.filter((_, i) => !fields[i]);
    if (lacking.length)
      status.textContent = `${file.name} has no column ${lacking.join(", ")}: choose the column of SMILES.`;
    else return predictTable(file, file.name, models(), fieldsOf, status, place);
  };
  columns.replaceChildren(...expected.map((name, i) => make("label", {class: "field"},
    expected.length > 1 ? `Column of SMILES for ${name}` : "Column of SMILES",
    make("select", {id: `column-${i + 1}`, on: {change: (event) => {
      fields[i] = event.target.value;
      isChosen = true;
      run();
    }}}, ...["", ...header].map((each) => make("option", {value: each, selected: each === fields[i]}, each || "choose …"))))));
  await run();
}

/** Return the names in the first line of a CSV file. */
function headerOf(text) {
  const first = text.replace(/^\ufeff/, "").split(/\r?\n/, 1)[0];
  const count = (each) => first.split(each).length;
  const comma = [",", ";", "\t"].sort((a, b) => count(b) - count(a))[0];
  const cells = first.match(new RegExp(`("([^"]|"")*"|[^${comma}]*)(${comma}|$)`, "g")) || [];
  const names = cells.map((cell) => cell.endsWith(comma) ? cell.slice(0, -1) : cell)
    .map((cell) => /^".*"$/.test(cell) ? cell.slice(1, -1).replaceAll('""', '"') : cell.trim());
  return [...new Set(names)].filter(Boolean);
}

/** Predict the lines of a text, one SMILES in each, and show the table. */
export function predictLines(text, models) {
  const place = byId("predictions");
  place.replaceChildren();
  return predictTable(smilesTable(text), "Pasted molecules", models, () => ["smiles"], byId("molecule-status"), place);
}

/** Predict a table with models, given a function that returns the columns of SMILES of a model, and show it. */
async function predictTable(body, name, models, fieldsOf, status, place) {
  place.replaceChildren();
  if (!models.length) {
    status.textContent = "Choose a model of molecules above.";
    return;
  }
  status.textContent = `Predicting ${name} …`;
  const answers = [], predicted = [], faults = [];
  for (const model of models) {
    try {
      answers.push(await predictWith(body, model, fieldsOf(model)));
      predicted.push(model);
    } catch (error) {
      faults.push([model.name, error.message]);
    }
  }
  const table = answers.length ? joined(answers, predicted) : null;
  const bad = table?.rows.filter((row) => row[table.error]).length;
  const counts = table ? [`${name}: ${table.rows.length} rows, ${bad} of them with an error.`] : [];
  status.textContent = [...counts, ...faultsOf(faults, models.length)].join(" ");
  if (table) show(table, name, place);
}

/** Return the lines of a SMILES file as a CSV table with the columns smiles and, if there are names, name. */
function smilesTable(text) {
  const quoted = (cell) => `"${cell.replaceAll('"', '""')}"`;
  const rows = text.split(/\r?\n/).map((each) => each.trim()).filter(Boolean)
    .map((each) => /^(\S+)\s*(.*)$/.exec(each).slice(1));
  if (/^smiles$/i.test(rows[0]?.[0])) rows.shift();
  const width = rows.some(([, name]) => name) ? 2 : 1;
  return [["smiles", "name"], ...rows].map((row) => row.slice(0, width).map(quoted).join(",")).join("\n") + "\n";
}

function predictWith(file, model, fields) {
  const query = new URLSearchParams({model: model.name});
  for (const name of fields) query.append("smiles", name);
  const headers = {"content-type": "text/csv", accept: "application/json"};
  return ask(`/predict?${query}`, {method: "POST", body: file, headers});
}

/** Join the tables of several models: the columns of the file, those of each model, the error. */
function joined(answers, models) {
  const first = answers[0], width = first.columns.length - models[0].columns.length - 1;
  const several = models.length > 1;
  const columns = first.columns.slice(0, width);
  models.forEach((model, i) => columns.push(
    ...answers[i].columns.slice(width, -1).map((name) => several ? `${model.name}: ${name}` : name)));
  columns.push("error");
  const rows = first.rows.map((row, i) => [
    ...row.slice(0, width), ...answers.flatMap((answer) => answer.rows[i].slice(width, -1)), errorOf(answers, models, i)]);
  return {columns, rows, width, smiles: first.smiles_columns, error: columns.length - 1};
}

/** Return the error of a row: once if all models have the same one, otherwise by model. */
function errorOf(answers, models, row) {
  const errors = answers.map((answer) => answer.rows[row].at(-1));
  if (errors.every((error) => error === errors[0])) return errors[0];
  return errors.map((error, i) => error && `${models[i].name}: ${error}`).filter(Boolean).join("; ");
}

function show(table, name, place) {
  const state = {order: table.rows.map((_, i) => i), sorted: -1, ascending: true, page: 0};
  const numeric = table.columns.map((_, c) => table.rows.every((row) => row[c] === "" || isFinite(row[c])));
  const head = make("tr", {}, make("th", {scope: "col"}, "structure"),
    ...table.columns.map((name, c) => make("th", {scope: "col", class: numeric[c] ? "number" : null},
      make("button", {type: "button", on: {click: () => sortBy(c)}}, name))));
  const body = make("tbody"), position = make("span", {role: "status", "aria-live": "polite"});
  const back = make("button", {type: "button", on: {click: () => turn(-1)}}, "Previous rows");
  const next = make("button", {type: "button", on: {click: () => turn(1)}}, "Next rows");
  const download = make("button", {type: "button", class: "download", on: {click: () => save(table, state.order)}},
    "Download as CSV");

  function sortBy(column) {
    state.ascending = state.sorted === column ? !state.ascending : true;
    state.sorted = column;
    const sign = state.ascending ? 1 : -1;
    const key = (i) => table.rows[i][column];
    state.order.sort((a, b) => {
      if ((key(a) === "") !== (key(b) === "")) return key(a) === "" ? 1 : -1;  // empty cells last
      const difference = numeric[column] ? key(a) - key(b) : key(a).localeCompare(key(b));
      return sign * difference || a - b;
    });
    [...head.children].slice(1).forEach((cell, c) => c === column
      ? cell.setAttribute("aria-sort", state.ascending ? "ascending" : "descending")
      : cell.removeAttribute("aria-sort"));
    state.page = 0;
    fill();
  }
  function turn(step) {
    state.page += step;
    fill();
  }
  function fill() {
    const begin = state.page * PAGE, end = Math.min(begin + PAGE, state.order.length);
    body.replaceChildren(...state.order.slice(begin, end).map((i) => line(table, table.rows[i], numeric)));
    position.textContent = `Rows ${state.order.length ? begin + 1 : 0} to ${end} of ${state.order.length}`;
    back.hidden = next.hidden = state.order.length <= PAGE;
    back.disabled = begin === 0;
    next.disabled = end === state.order.length;
  }
  fill();
  place.replaceChildren(make("div", {},
    make("div", {class: "pages"}, back, next, position, download),
    make("div", {class: "scroll file", tabindex: "0", role: "region", "aria-label": `Predictions of ${name}`},
      make("table", {}, make("thead", {}, head), body))));
}

function line(table, row, numeric) {
  const smiles = table.smiles.map((column) => row[column].trim().split(/\s/)[0]).join(".");
  const isReaction = /[^-]>/.test(smiles);
  const picture = row[table.error] ? make("span", {class: "error"}, "error")
    : isReaction ? "" : moleculePicture(smiles, `Structure of ${smiles}`);
  return make("tr", {}, make("td", {}, picture),
    ...row.map((cell, c) => make("td", {class: kindOf(table, numeric, c)}, shown(table, row, c, numeric[c]))));
}

/** Return the text of a cell: predicted numbers with three digits; the download contains all digits. */
function shown(table, row, column, isNumber) {
  const cell = row[column], name = table.columns[column];
  if (cell === "" || column < table.width || column === table.error) return cell;
  if (isNumber) return digits(Number(cell));
  const set = name.endsWith("prediction") ? table.columns.indexOf(name.replace(/prediction$/, "set")) : -1;
  return set < 0 ? cell : classText(cell, row[set]);
}

function kindOf(table, numeric, column) {
  if (column === table.error) return "error";
  if (table.smiles.includes(column)) return "smiles";
  return numeric[column] ? "number" : null;
}

/**
 * Save the table as a CSV file, in the order in which it is shown. An apostrophe precedes a text that a
 * spreadsheet would compute as a formula.
 */
export function save(table, order) {
  const quoted = (text) => {
    const cell = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
  };
  const lines = [table.columns, ...order.map((i) => table.rows[i])].map((row) => row.map(quoted).join(","));
  const content = new Blob([lines.join("\r\n") + "\r\n"], {type: "text/csv"});
  const link = make("a", {href: URL.createObjectURL(content), download: "predictions.csv"});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
