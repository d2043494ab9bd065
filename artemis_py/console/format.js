// Values as text. Texts of the console are English, so numbers are too.

// Controls, formats (bidi controls are among them), lone surrogates, and separators of lines and paragraphs.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const ROUGH = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const PERCENT = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Split a text into parts `[text, isEscape]`; an escape stands for a character that cannot be seen. */
export function parts(text) {
  const found = [];
  let end = 0;
  for (const match of text.matchAll(UNSEEN)) {
    if (match.index > end) {
      found.push([text.slice(end, match.index), false]);
    }
    found.push([`\\u{${match[0].codePointAt(0).toString(16)}}`, true]);
    end = match.index + match[0].length;
  }
  if (end < text.length) {
    found.push([text.slice(end), false]);
  }
  return found;
}

/** Return a text with escapes, for places that take no elements. */
export function plain(text) {
  return parts(String(text)).map(([part]) => part).join("");
}

export function whole(number) {
  return WHOLE.format(number);
}

export function percent(share) {
  return PERCENT.format(share);
}

/** Return a rate: three digits below a thousand, whole numbers above. */
export function rate(perSecond) {
  if (!Number.isFinite(perSecond)) {
    return "–";
  }
  return perSecond >= 1000 ? WHOLE.format(perSecond) : ROUGH.format(perSecond);
}

export function octets(count) {
  let index = 0;
  let rest = count;
  while (rest >= 1024 && index < UNITS.length - 1) {
    rest /= 1024;
    index += 1;
  }
  return `${rest < 1000 ? ROUGH.format(rest) : WHOLE.format(rest)} ${UNITS[index]}`;
}

/** Return a number and its noun: `counted(1, "message")` is "1 message". */
export function counted(count, noun) {
  return `${whole(count)} ${count === 1 ? noun : plural(noun)}`;
}

export function plural(noun) {
  return noun.endsWith("s") ? `${noun}es` : `${noun}s`;
}

/** Return a length of time with its two largest units. */
export function duration(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  const values = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = values.findIndex(([value]) => value > 0);
  if (first < 0) {
    return "0 s";
  }
  return values.slice(first, first + 2).filter(([value]) => value > 0)
    .map(([value, unit]) => `${value} ${unit}`).join(" ");
}

/** Return a time in milliseconds since 1970, as the clock of this browser shows it. */
export function moment(milliseconds) {
  return MOMENT.format(new Date(milliseconds));
}

export function clock(milliseconds) {
  return CLOCK.format(new Date(milliseconds));
}
