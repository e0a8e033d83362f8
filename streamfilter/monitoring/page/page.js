"use strict";
// Reads page.json (/status without its lists of partitions) and shows it. Everything that came from a record is set as text, never as markup.

const EVERY_MS = 1000;
const WORDS_MAX = 300; // of each text that is compared: the table of the comparison is its square
const SVG = "http://www.w3.org/2000/svg";
const NAMES = {
  unique: "unique", exact_duplicate: "exact duplicate", near_duplicate: "near-duplicate",
  passthrough: "passed through", dropped: "dropped", rejected: "dead letter",
};
const FIGURES = [
  ["audit_recall", "Recall of different texts", "texts that are too short; errors in reading a text"],
  ["audit_recall_equal", "Recall of equal texts", "copies of forgotten documents"],
  ["audit_precision", "Precision of near-duplicates", "equal texts: they are compared by a hash of 128 bits"],
];
const CAUSES = {
  bands: "no key in common", full_buckets: "not listed in a full bucket",
  max_candidates: "more candidates than are compared", estimate: "signatures too different",
};
const CHANGES = { recall: "Alarm for lower recall", wrong: "Alarm for more wrong verdicts" };

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

const DATES_SECONDS_MAX = 253402300800; // the year 10000; a record may have any timestamp
const minute = (seconds) => Math.abs(seconds) < DATES_SECONDS_MAX
  ? new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC" : `${seconds} s after 1970`;
const megabytes = (bytes) => counted(Math.round(bytes / 1e6)) + " MB";

function showTraffic(status) {
  const verdicts = Object.entries(status.verdicts);
  const records = verdicts.reduce((sum, [, count]) => sum + count, 0);
  const rate = status.history.records_a_second;
  at("rate").textContent = rate === null ? "–" : counted(rate < 10 ? rate : Math.round(rate));
  at("records").textContent = counted(records);
  at("lag").textContent = status.lag_records === null ? "–" : counted(status.lag_records);
  at("documents").textContent = counted(status.index_documents);
  at("since").textContent = status.index_since_seconds === null ? "–" : minute(status.index_since_seconds);
  at("bytes").textContent = status.index_bytes === null ? "–" : megabytes(status.index_bytes) +
    (status.index_expected_bytes === null ? "" : `, of ${megabytes(status.index_expected_bytes)} in the end`);
  at("filter").textContent = status.index_filter_bits === null ? "–" : `${status.index_filter_bits.toFixed(1)} bits a key`;
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

const LINES = [
  ["rate", "Records a second", (value) => counted(Math.round(value))],
  ["lag", "Consumer lag, records", counted],
  ["duplicates", "Share of duplicates", share],
  ["recall", "Recall of different texts", share],
];
const HOUR_SECONDS = 3600;

/** Draws one value of the last hour; a span without a value is a gap, and shares reach from 0 to 1. */
function line(values, ages, most) {
  const wide = 300, high = 60, long = Math.min(HOUR_SECONDS, Math.max(60, ages[0] ?? 0));
  const picture = drawn("svg", { viewBox: `0 0 ${wide} ${high}`, "aria-hidden": "true", preserveAspectRatio: "none" });
  const x = (age) => wide - 2 - (age / long) * (wide - 4), y = (value) => high - 3 - (value / most) * (high - 6);
  let path = "", drawing = false;
  values.forEach((value, place) => {
    if (value !== null) path += `${drawing ? "L" : "M"}${x(ages[place]).toFixed(1)} ${y(value).toFixed(1)}h.1`;
    drawing = value !== null;
  });
  picture.append(drawn("path", { class: "axis", d: `M0 ${high - 1}H${wide}` }), drawn("path", { class: "trend", d: path }));
  return picture;
}

function showHour({ seconds_ago: ages, ...history }) {
  at("hour").replaceChildren(...LINES.map(([name, title, written]) => {
    const values = history[name], known = values.filter((value) => value !== null);
    const greatest = known.reduce((most, value) => Math.max(most, value), 0), last = known.at(-1);
    const whole = name === "duplicates" || name === "recall";
    const words = known.length === 0 ? "not known yet" : whole ? `now ${written(last)}` : `now ${written(last)}, highest ${written(greatest)}`;
    return made("div", {}, made("dt", {}, title), made("dd", {}, line(values, ages, whole ? 1 : greatest || 1), made("span", {}, words)));
  }));
  const minutes = Math.round((ages[0] ?? 0) / 60);
  at("hour-note").textContent = minutes ? `The last ${minutes} min, now on the right. Shares are drawn from 0 to 100 %.` : "The lines begin with the process.";
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
  const pairs = rows.map((row) => `${share(row.told)} expected, ${share(row.value)} wrong`).join("; ");
  const picture = drawn("svg", { viewBox: `0 0 ${size} ${size}`, role: "img", class: "square",
    "aria-label": `Wrong verdicts, expected and found: ${pairs || "nothing yet"}` });
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
  if (figure.says === "known") return "all were audited";
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
  at("lost").textContent = (unknown === 0 ? "" : `Of ${counted(quality.audit_decided)} audited records, ` +
    `${counted(unknown)} have no known result, because their sets were cut or sampled. `) +
    (lost.length === 0 ? (known ? "No duplicate was missed among the audited records." : "No record was audited yet.") : "Missed duplicates, about: " +
    lost.map(([cause, count]) => `${counted(Math.round(count))} (${CAUSES[cause] ?? cause})`).join(", ") +
    `. The audit saw ${counted(quality.audit_missed_sampled)} of them, with ${counted(quality.audit_missed_originals)} originals.`);
  at("changes").textContent = Object.entries(quality.audit_changes).map(([figure, { score, changes, why }]) =>
    `${CHANGES[figure] ?? figure}: ${score === null ? "not known, " + why
      : `${counted(changes)} since the start, the evidence for the next is at ${share(score)}`}.`).join(" ");
  at("quality-note").textContent =
    "Recall is the share of the duplicates that were found. Precision is the share of the found ones that are duplicates. " +
    `The audit compared ${counted(quality.audit_decided)} of ${counted(arrivals)} records with the whole index. They were chosen at random. ` +
    "A figure describes these records. If all were audited, it has no interval. " +
    `Documents that full buckets hide since the start: ` +
    `${counted(quality.faintly_listed_documents)}, and ${counted(quality.unlisted_documents)} of them are in no bucket.` + boilerplateNote(quality.boilerplate_left);
}

/** Returns how much the table of boilerplate leaves of the documents; nothing without a table. */
function boilerplateNote({ all, enough, few }) {
  return all + enough + few === 0 ? "" : ` After boilerplate was left out, ${counted(few)} documents kept fewer than 8 shingles ` +
    `and ${counted(enough)} kept enough; ${counted(all)} had no boilerplate.`;
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
    `${total(confirmed)} confirmed from the threshold ${threshold} up`;
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
    picture.append(drawn("text", { class: "number-below", x: x(tick), y: high - 10, "text-anchor": "middle" }, String(tick)));
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
    made("p", {}, `similarity ${pair.similarity.toFixed(3)} (${pair.method}), ${pair.bands} bands shared; record ${pair.source}, original ${pair.match_source}`));
  if (!shadow) article.append(made("p", {}, "If this is wrong, forward it: ", made("code", {}, pair.release)));
  if (pair.text === null) return article;
  const words = (text) => (text ?? "").split(/\s+/).filter(Boolean);
  const ours = words(pair.text), theirs = words(pair.match_text);
  const left = theirs.slice(0, WORDS_MAX), right = ours.slice(0, WORDS_MAX);
  const [inLeft, inRight] = pair.match_text === null ? [new Set(), new Set(right.keys())] : common(left, right);
  article.append(made("div", { class: "texts" },
    pair.match_text === null ? made("p", {}, "The text of the original is not in memory any more.")
      : textBox("The original " + pair.match_id, left, inLeft, theirs.length > WORDS_MAX),
    textBox("The near-duplicate " + pair.id, right, inRight, ours.length > WORDS_MAX)));
  return article;
}

let shown = "";
function showLatest(pairs, payloads, shadow) {
  const now = JSON.stringify(pairs);
  if (now === shown || at("latest").contains(document.activeElement)) return; // a reader's focus stays
  shown = now;
  at("latest-note").textContent = pairs.length === 0 ? "None so far."
    : payloads ? "The original is on the left. Words that only one side has are marked."
      : "Texts are not shown, because http.show_payloads is off.";
  at("latest").replaceChildren(...pairs.map((pair) => pairOf(pair, shadow)));
}

function show(status) {
  at("state").textContent = status.state;
  at("state").className = "state " + (status.ready && status.live ? "good" : "bad");
  at("detail").textContent = status.detail;
  const owners = [...new Set(Object.values(status.owners ?? {}))].join(", ");
  at("where").textContent = `topic ${status.topic} · group ${status.group} · ${status.instance}` + (status.state === "standby"
    ? `; the owner is ${owners || "another process of the group"}` : "");
  at("about").textContent = `version ${status.version}, up ${Math.round(status.uptime_seconds)} s`;
  showTraffic(status);
  showHour(status.history);
  showQuality(status.quality);
  showHistogram(status.similarities, status.threshold);
  showLatest(status.latest, status.show_payloads, status.mode === "shadow");
}

async function look() {
  let status;
  try {
    const answer = await fetch("page.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    status = await answer.json();
  } catch (error) {
    at("state").textContent = "no answer";
    at("state").className = "state bad";
    at("detail").textContent = "The process does not answer. The figures below are its last ones.";
    return;
  }
  show(status);
}

at("explain").addEventListener("submit", async (event) => {
  event.preventDefault();
  const id = at("explain-id").value, button = at("explain-ask"), box = at("explain-answer");
  if (!id || button.disabled) return;
  button.disabled = true;
  box.textContent = "Looking …";
  try {
    const found = await (await fetch("explain?id=" + encodeURIComponent(id), { cache: "no-store" })).json();
    box.textContent = found.answer ?? found.error;
  } catch (error) {
    box.textContent = "The process did not answer. Ask again, or run `streamfilter explain --id …`.";
  }
  button.disabled = false;
});

let paused = false;
at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  if (!paused) look();
});
look();
setInterval(() => { if (!paused && !document.hidden) look(); }, EVERY_MS);
