"use strict";
const { files, needs } = JSON.parse(document.getElementById("data").textContent);
const boxes = new Map([...document.querySelectorAll("input[data-change]")].map((box) => [Number(box.dataset.change), box]));
const CONTEXT = 3;

/** The lines of a text, each with its newline; only a line feed ends one. */
function linesOf(text) {
  return text.match(/[^\n]*\n|[^\n]+$/g) || [];
}

/** What is replaced in a file where some changes are on, each without the lines at its ends that stay. */
function editsOf(file, on) {
  const edits = [];
  for (const piece of file.pieces.filter((each) => each.changes.some((number) => on.has(number)))) {
    let start = piece.line - 1, end = piece.end_line;
    let lines = linesOf(piece.text);
    while (start < end && lines.length && file.lines[start] === lines[0]) { start += 1; lines = lines.slice(1); }
    while (start < end && lines.length && file.lines[end - 1] === lines[lines.length - 1]) { end -= 1; lines = lines.slice(0, -1); }
    if (start < end || lines.length) edits.push({ start, end, lines });
  }
  return edits;
}

/** A line of a patch. */
function shown(mark, line) {
  return line.endsWith("\n") ? mark + line : `${mark}${line}\n\\ No newline at end of file\n`;
}

/** The lines that a hunk has of a file: none stand before its first, as `patch` counts. */
function range(start, count) {
  return `${count ? start + 1 : start},${count}`;
}

/** The patch of one file. */
function patchOfFile(file, on) {
  const groups = [];
  for (const edit of editsOf(file, on)) {
    const last = groups[groups.length - 1];
    if (last && edit.start - last[last.length - 1].end <= 2 * CONTEXT) last.push(edit);
    else groups.push([edit]);
  }
  if (!groups.length) return "";
  const name = /\s/.test(file.path) ? `${file.path}\t` : file.path;
  let text = `--- ${name}\n+++ ${name}\n`;
  let moved = 0;
  for (const group of groups) {
    const first = Math.max(0, group[0].start - CONTEXT);
    const end = Math.min(file.lines.length, group[group.length - 1].end + CONTEXT);
    let body = "", at = first, added = 0;
    for (const edit of group) {
      body += file.lines.slice(at, edit.start).map((line) => shown(" ", line)).join("");
      body += file.lines.slice(edit.start, edit.end).map((line) => shown("-", line)).join("");
      body += edit.lines.map((line) => shown("+", line)).join("");
      at = edit.end;
      added += edit.lines.length - (edit.end - edit.start);
    }
    body += file.lines.slice(at, end).map((line) => shown(" ", line)).join("");
    text += `@@ -${range(first, end - first)} +${range(first + moved, end - first + added)} @@\n${body}`;
    moved += added;
  }
  return text;
}

/** The numbers of the changes that are on. */
function chosen() {
  return new Set([...boxes].filter(([, box]) => box.checked).map(([number]) => number));
}

/** The patch of all that is on. */
function patch() {
  const on = chosen();
  return files.map((file) => patchOfFile(file, on)).join("");
}

/** Turns a change on with all that it needs, or off with all that needs it. */
function turn(number, on) {
  const box = boxes.get(number);
  if (!box) return;
  box.checked = on;
  for (const [other, needed] of Object.entries(needs)) {
    if (on && Number(other) === number) needed.filter((each) => boxes.has(each) && !boxes.get(each).checked).forEach((each) => turn(each, true));
    if (!on && needed.includes(number) && boxes.has(Number(other)) && boxes.get(Number(other)).checked) turn(Number(other), false);
  }
}

/** Shows what is on. */
function show() {
  const on = chosen();
  for (const [number, box] of boxes) box.closest(".card").classList.toggle("off", !box.checked);
  document.getElementById("count").textContent = `${on.size} of ${boxes.size} are on`;
  const text = patch();
  document.getElementById("patch").textContent = text;
  document.getElementById("download").disabled = !text;
}

for (const [number, box] of boxes) box.addEventListener("change", () => { turn(number, box.checked); show(); });
document.getElementById("all").addEventListener("click", () => { for (const number of boxes.keys()) turn(number, true); show(); });
document.getElementById("none").addEventListener("click", () => { for (const number of boxes.keys()) turn(number, false); show(); });
document.getElementById("download").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([patch()], { type: "text/x-patch" }));
  link.download = "torchfast.patch";
  link.click();
  URL.revokeObjectURL(link.href);
});
// A page that is loaded again may come with boxes as they were left.
show();
