// Time to pixels: linear, but each idle gap has the same small width. Pure.
export const FOLD_PX = 26;
const STEPS_US = [1, 2, 5].flatMap((digit) => [1, 10, 100, 1e3, 1e4, 1e5].map((unit) => digit * unit))
  .concat([1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800].map((s) => s * 1e6))
  .sort((a, b) => a - b);

/** Return a scale of [start, end] on `width` pixels. `gaps` are in order, and do not overlap. */
export function makeScale(start, end, gaps, width) {
  const inner = gaps
    .map((gap) => ({ start: Math.max(start, gap.start_us), end: Math.min(end, gap.end_us) }))
    .filter((gap) => gap.end > gap.start);
  const folds = inner.length * FOLD_PX < width / 2 ? inner : [];
  const busy = Math.max(1, end - start - folds.reduce((sum, fold) => sum + fold.end - fold.start, 0));
  const perUs = Math.max(1, width - folds.length * FOLD_PX) / busy;
  const pieces = [];
  let from = start;
  let x = 0;
  for (const fold of [...folds, { start: Math.max(end, start + 1), end: null }]) {
    const w = (fold.start - from) * perUs;
    pieces.push({ start: from, end: fold.start, x, w, isFold: false });
    x += w;
    if (fold.end === null) break;
    pieces.push({ start: fold.start, end: fold.end, x, w: FOLD_PX, isFold: true });
    x += FOLD_PX;
    from = fold.end;
  }
  const at = (us) => {
    const piece = pieces.find((one) => us <= one.end) ?? pieces.at(-1);
    return piece.x + Math.max(0, Math.min(1, (us - piece.start) / Math.max(1, piece.end - piece.start))) * piece.w;
  };
  return { start, end, pieces, at, perUs };
}

/** Return the times that the axis names, at least `apart` pixels from each other. */
export function ticks(scale, apart) {
  const step = STEPS_US.find((one) => one * scale.perUs >= apart) ?? STEPS_US.at(-1);
  const found = [];
  for (const piece of scale.pieces) {
    if (piece.isFold) continue;
    for (let us = Math.ceil(piece.start / step) * step; us <= piece.end && found.length < 200; us += step) {
      const x = scale.at(us);
      if (found.length === 0 || x - found.at(-1).x >= apart) found.push({ us, x });
    }
  }
  return { step, found };
}

export function timeText(us, step) {
  const text = new Date(us / 1000).toISOString();
  if (step >= 86400e6) return text.slice(5, 10);
  if (step >= 1e6) return text.slice(11, 19);
  return text.slice(11, 23) + (step < 1000 ? String(Math.floor(us % 1000)).padStart(3, "0") : "");
}

export function spanText(us) {
  if (us < 1e4) return `${(us / 1e3).toFixed(1)} ms`;
  if (us < 1e6) return `${Math.round(us / 1e3)} ms`;
  if (us < 6e7) return `${(us / 1e6).toFixed(1)} s`;
  if (us < 3.6e9) return `${Math.floor(us / 6e7)} min ${Math.floor((us % 6e7) / 1e6)} s`;
  if (us < 8.64e10) return `${Math.floor(us / 3.6e9)} h ${Math.floor((us % 3.6e9) / 6e7)} min`;
  return `${Math.floor(us / 8.64e10)} d ${Math.floor((us % 8.64e10) / 3.6e9)} h`;
}
