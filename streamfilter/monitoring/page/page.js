"use strict";
// Reads /status and shows it. Everything that came from a record is set as text, never as markup.

const EVERY_MS = 1000;
const WORDS_MAX = 300; // of each text that is compared: the table of the comparison is its square
const SVG = "http://www.w3.org/2000/svg";
const NAMES = {
  unique: "unique", exact_duplicate: "exact duplicate", near_duplicate: "near-duplicate",
  passthrough: "passed through", dropped: "dropped", rejected: "dead letter",
};
const FIGURES = [
  ["audit_recall", "Recall of different texts", "texts too short to be signed; what the sketcher made of a text is believed"],
  ["audit_recall_equal", "Recall of equal texts", "copies of what is forgotten"],
  ["audit_precision", "Precision of near-duplicates", "equal texts, compared by 128 bits"],
];
const CAUSES = {
  bands: "no key in common", full_buckets: "not listed in a full bucket",
  max_candidates: "others were looked at first", estimate: "signatures too unlike",
};
const CHANGES = { recall: "Change, recall has fallen", wrong: "Change, more verdicts are wrong" };

const at = (id) => document.getElementById(id);
const counted = (number) => number.toLocaleString("en");
const share = (value) => (value * 100).toFixed(value > 0.9995 || value < 0.0005 ? 2 : 1) + " %";

function made(tag, attributes = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}

function drawn(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// Two looks at least a second apart make a rate.
let before = null;
function rateOf(status, records) {
  const now = { uptime: status.uptime_seconds, records };
  if (before === null || now.uptime < before.uptime || now.records < before.records) before = now;
  const seconds = now.uptime - before.uptime;
  if (seconds < EVERY_MS / 1000) return null;
  const rate = (now.records - before.records) / seconds;
  if (seconds > 10) before = { uptime: before.uptime + seconds / 2, records: before.records + (now.records - before.records) / 2 };
  return rate;
}

const minute = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC";
const megabytes = (bytes) => counted(Math.round(bytes / 1e6)) + " MB";

function showTraffic(status) {
  const verdicts = Object.entries(status.verdicts);
  const records = verdicts.reduce((sum, [, count]) => sum + count, 0);
  const rate = rateOf(status, records);
  at("rate").textContent = rate === null ? "–" : counted(Math.round(rate));
  at("records").textContent = counted(records);
  const lags = Object.values(status.lag);
  at("lag").textContent = lags.length ? counted(lags.reduce((sum, lag) => sum + lag, 0)) : "–";
  at("documents").textContent = counted(status.index_documents);
  at("since").textContent = status.index_since_seconds === null ? "–" : minute(status.index_since_seconds);
  at("bytes").textContent = status.index_bytes === null ? "–" : megabytes(status.index_bytes) +
    (status.index_expected_bytes === null ? "" : `, of ${megabytes(status.index_expected_bytes)} in the end`);
  at("backup-row").hidden = status.backup_made_seconds === null && !status.backup_failure;
  at("backup").textContent = (status.backup_made_seconds ? minute(status.backup_made_seconds) : "none yet") +
    (status.backup_failure && `; the last try failed: ${status.backup_failure}`);
  at("mode").hidden = status.mode !== "shadow";
  at("verdicts").replaceChildren(...verdicts.map(([verdict, count]) => made("tr", {},
    made("th", { scope: "row" }, made("span", { class: "dot " + verdict, "aria-hidden": "true" }), NAMES[verdict] ?? verdict),
    made("td", { class: "number" }, counted(count)),
    made("td", { class: "number" }, records ? share(count / records) : "–"))));
  at("shares").replaceChildren(...verdicts.filter(([, count]) => count).map(([verdict, count]) => {
    const bar = made("span", { class: verdict });
    bar.style.flexGrow = count;
    return bar;
  }));
}

function interval(estimate) {
  const picture = drawn("svg", { viewBox: "0 0 200 24", "aria-hidden": "true" });
  const x = (value) => 6 + value * 188;
  picture.append(
    drawn("line", { class: "axis", x1: x(0), x2: x(1), y1: 12, y2: 12 }),
    drawn("line", { class: "span", x1: x(estimate.lower), x2: Math.max(x(estimate.upper), x(estimate.lower) + 1), y1: 12, y2: 12 }));
  if (estimate.value !== null) picture.append(drawn("circle", { class: "point", cx: x(estimate.value), cy: 12, r: 5 }));
  return picture;
}

function showReliability(rows) {
  at("reliability-table").replaceChildren(...rows.map((row) => made("tr", {},
    made("th", { scope: "row" }, share(row.told)),
    made("td", { class: "number" }, share(row.value)),
    made("td", { class: "number" }, ends(row)),
    made("td", { class: "number" }, counted(row.verdicts)),
    made("td", {}, row.calibrated_why ? `${row.calibrated}: ${row.calibrated_why}` : row.calibrated))));
  const size = 220, x = (value) => 24 + value * (size - 34), y = (value) => size - 24 - value * (size - 34);
  const told = rows.map((row) => `${share(row.told)} expected, ${share(row.value)} wrong`).join("; ");
  const picture = drawn("svg", { viewBox: `0 0 ${size} ${size}`, role: "img", class: "square",
    "aria-label": `Doubt expected and found: ${told || "nothing yet"}` });
  picture.append(
    drawn("line", { class: "axis", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
    drawn("text", { class: "label", x: x(0.5), y: size - 6, "text-anchor": "middle" }, "expected to be wrong"),
    drawn("text", { class: "label", x: x(0.02), y: y(0.95) }, "is wrong"));
  for (const row of rows) {
    picture.append(
      drawn("line", { class: "span", x1: x(row.told), x2: x(row.told), y1: y(row.lower), y2: y(row.upper) }),
      drawn("circle", { class: "point", cx: x(row.told), cy: y(row.value), r: 4 }));
  }
  at("reliability").replaceChildren(picture);
}

function ends(figure) {
  if (figure.says === "known") return "all looked at";
  if (figure.says === "interval") return share(figure.lower) + " to " + share(figure.upper);
  if (figure.says === "upper bound") return "at most " + share(figure.upper);
  return figure.says === "lower bound" ? "at least " + share(figure.lower) : "not known";
}

function showQuality(quality) {
  at("quality").replaceChildren(...FIGURES.map(([name, meaning, blind]) => {
    const found = quality[name], whole = found.lower !== null && found.upper !== null;
    return made("tr", {}, made("th", { scope: "row" }, meaning),
      made("td", { class: "number" }, found.value === null ? "–" : share(found.value)),
      made("td", { class: "number" }, ends(found)),
      made("td", { class: "graph" }, whole ? interval(found) : "–"),
      made("td", { class: "blind" }, found.why || blind));
  }));
  at("by-similarity").replaceChildren(...quality.audit_by_similarity.map((row) => made("tr", {},
    made("th", { scope: "row" }, `from ${row.from.toFixed(2)}`),
    made("td", { class: "number" }, counted(row.withheld)),
    made("td", { class: "number" }, counted(row.missed_sampled)),
    made("td", { class: "number" }, ends(row.recall)))));
  showReliability(quality.reliability);
  const lost = Object.entries(quality.audit_lost).filter(([, count]) => count > 0);
  const arrivals = quality.audit_population.unique + quality.audit_population.near;
  const unknown = quality.audit_not_known, known = quality.audit_decided - unknown;
  at("lost").textContent = (unknown === 0 ? "" : `Not known of ${counted(unknown)} of the ` +
    `${counted(quality.audit_decided)} arrivals chosen, whose sets were cut or sampled. `) +
    (lost.length === 0 ? (known ? "No loss was seen." : "") : "Lost, about: " +
    lost.map(([cause, count]) => `${counted(Math.round(count))} (${CAUSES[cause] ?? cause})`).join(", ") +
    `; the ${counted(quality.audit_missed_sampled)} that were seen have ${counted(quality.audit_missed_originals)} originals.`);
  at("changes").textContent = Object.entries(quality.audit_changes).map(([figure, { score, changes, why }]) =>
    `${CHANGES[figure] ?? figure}: ${score === null ? "not known, " + why
      : `${counted(changes)} reported since the start, ${share(score)} of the way to the next`}.`).join(" ");
  at("quality-note").textContent =
    "Recall: how many of the duplicates are found. Precision: how many of those found are duplicates. " +
    `The audit held ${counted(quality.audit_decided)} arrivals, chosen at random among ${counted(arrivals)}, against the whole index; ` +
    "its figures speak of those, not of what comes next: where all were looked at, there is no interval. " +
    `Documents that full buckets hide, since the start: ` +
    `${counted(quality.faintly_listed_documents)}, ${counted(quality.unlisted_documents)} of them wholly.` + boilerplateNote(quality.boilerplate_left);
}

/** What the table of boilerplate leaves; nothing without a table. */
function boilerplateNote({ all, enough, few }) {
  return all + enough + few === 0 ? "" : ` Boilerplate: ${counted(few)} documents kept fewer than 8 shingles ` +
    `or none, ${counted(enough)} kept enough, ${counted(all)} have none in the table.`;
}

function showHistogram(found, threshold) {
  const { edges, rejected } = found, confirmed = [...found.confirmed];
  // A bin holds its upper edge: a pair just at the threshold belongs to those that begin there.
  const last = edges.findIndex((edge) => Math.abs(edge - threshold) < 1e-9);
  if (last >= 0 && last + 1 < edges.length) {
    confirmed[last + 1] += confirmed[last];
    confirmed[last] = 0;
  }
  const wide = 1000, high = 230, floor = high - 30, most = Math.max(1, ...confirmed, ...rejected);
  const x = (similarity) => 20 + similarity * (wide - 40);
  const y = (count) => floor - (Math.log1p(count) / Math.log1p(most)) * (floor - 24);
  const total = (counts) => counts.reduce((sum, count) => sum + count, 0);
  const label = `Histogram of similarities, logarithmic: ${total(rejected)} pairs rejected below, ` +
    `${total(confirmed)} confirmed from the threshold ${threshold} on`;
  const picture = drawn("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": label });
  edges.forEach((edge, place) => {
    const from = place ? edges[place - 1] : 0;
    for (const [kind, counts] of [["rejected", rejected], ["confirmed", confirmed]]) {
      if (!counts[place]) continue;
      const both = confirmed[place] && rejected[place];
      const middle = from < threshold && threshold < edge ? threshold : (from + edge) / 2;
      const left = x(both && kind === "confirmed" ? middle : from) + 1;
      const width = x(both && kind === "rejected" ? middle : edge) - 1 - left;
      picture.append(drawn("rect", { class: "bar " + kind, x: left, width, y: y(counts[place]), height: floor - y(counts[place]) }));
    }
  });
  picture.append(drawn("line", { class: "axis", x1: x(0), x2: x(1), y1: floor, y2: floor }));
  for (const tick of [0, 0.2, 0.4, 0.6, 0.8, 1])
    picture.append(drawn("text", { x: x(tick), y: high - 10, "text-anchor": "middle" }, String(tick)));
  picture.append(
    drawn("line", { class: "threshold", x1: x(threshold), x2: x(threshold), y1: 16, y2: floor }),
    drawn("text", { x: x(threshold), y: 12, "text-anchor": "middle" }, `threshold ${threshold}`),
    drawn("text", { x: x(0), y: 12 }, `pairs, logarithmic: up to ${counted(most)}`));
  at("histogram").replaceChildren(picture);
  at("histogram-table").replaceChildren(...edges.map((edge, place) => made("tr", {}, made("th", { scope: "row" }, String(edge)),
    made("td", { class: "number" }, counted(rejected[place])), made("td", { class: "number" }, counted(confirmed[place])))));
}

// The longest common subsequence of words; what is in neither is marked on its side.
function common(left, right) {
  const wide = right.length + 1, table = new Uint16Array((left.length + 1) * wide);
  for (let i = left.length - 1; i >= 0; i--)
    for (let j = right.length - 1; j >= 0; j--)
      table[i * wide + j] = left[i] === right[j] ? table[(i + 1) * wide + j + 1] + 1
        : Math.max(table[(i + 1) * wide + j], table[i * wide + j + 1]);
  const inLeft = new Set(), inRight = new Set();
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    if (left[i] === right[j]) { inLeft.add(i++); inRight.add(j++); }
    else if (table[(i + 1) * wide + j] >= table[i * wide + j + 1]) i++;
    else j++;
  }
  return [inLeft, inRight];
}

function textBox(title, words, shared, more) {
  const box = made("div", { class: "text", tabindex: "0", role: "region", "aria-label": title });
  words.forEach((word, place) => box.append(shared.has(place) ? word : made("mark", {}, word), " "));
  if (more) box.append("…");
  return box;
}

function pairOf(pair, shadow) {
  const article = made("article", {},
    made("h3", {}, `${pair.id} is a near-duplicate of ${pair.match_id}`),
    made("p", {}, `similarity ${pair.similarity.toFixed(3)} (${pair.method}), ${pair.bands} bands shared; ${pair.source}, its original ${pair.match_source}`));
  if (!shadow) article.append(made("p", {}, "Wrong? ", made("code", {}, pair.release)));
  if (pair.text === null) return article;
  const words = (text) => (text ?? "").split(/\s+/).filter(Boolean);
  const ours = words(pair.text), theirs = words(pair.match_text);
  const left = theirs.slice(0, WORDS_MAX), right = ours.slice(0, WORDS_MAX);
  const [inLeft, inRight] = pair.match_text === null ? [new Set(), new Set(right.keys())] : common(left, right);
  article.append(made("div", { class: "texts" },
    pair.match_text === null ? made("p", {}, "The original is no longer at hand: only recently forwarded texts are.")
      : textBox("The original " + pair.match_id, left, inLeft, theirs.length > WORDS_MAX),
    textBox("The near-duplicate " + pair.id, right, inRight, ours.length > WORDS_MAX)));
  return article;
}

let shown = "";
function showLatest(pairs, payloads, shadow) {
  const now = JSON.stringify(pairs);
  if (now === shown || at("latest").contains(document.activeElement)) return; // whoever reads is not disturbed
  shown = now;
  at("latest-note").textContent = pairs.length === 0 ? "None so far."
    : payloads ? "The original on the left; words that only one side has are marked."
      : "Texts are not shown: http.show_payloads is off.";
  at("latest").replaceChildren(...pairs.map((pair) => pairOf(pair, shadow)));
}

function show(status) {
  at("state").textContent = status.state;
  at("state").className = "state " + (status.ready && status.live ? "good" : "bad");
  at("detail").textContent = status.detail;
  const owners = [...new Set(Object.values(status.owners ?? {}))].join(", ");
  at("where").textContent = `topic ${status.topic} · group ${status.group} · ${status.instance}` + (status.state === "standby"
    ? `; ${owners || "another process of the group"} works` : "");
  at("about").textContent = `version ${status.version}, up ${Math.round(status.uptime_seconds)} s`;
  showTraffic(status);
  showQuality(status.quality);
  showHistogram(status.similarities, status.threshold);
  showLatest(status.latest, status.show_payloads, status.mode === "shadow");
}

async function look() {
  try {
    const answer = await fetch("status", { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
  } catch (error) {
    at("state").textContent = "no answer";
    at("state").className = "state bad";
    at("detail").textContent = "The process does not answer; what is below is its last word.";
  }
}

let paused = false;
at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  if (!paused) look();
});
look();
setInterval(() => { if (!paused && !document.hidden) look(); }, EVERY_MS);
