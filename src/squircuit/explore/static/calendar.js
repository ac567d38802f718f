// Dates and times of an exported page: from a field to the parts that the circuit knows, and back to texts.

const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** The parts of what a field of a date or time holds, by name. Args: date: its name, parts, and those that are fixed. */
export function partsOf(date, text) {
  const [, day, clock] = /^(\d{4}-\d\d-\d\d)?T?(\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?$/.exec(text) ?? [];
  const at = new Date(`${day ?? "1970-01-01"}T${clock ?? "00:00"}Z`);
  if ((!day && !clock) || Number.isNaN(at.getTime()) || (day && at.toISOString().slice(0, 10) !== day))
    throw new Error(`${date.name}: ${text} is no ${date.field === "time" ? "time" : "date"}. Fix: choose one that there is.`);
  const number = at.getUTCDate(), last = daysOf(at.getUTCFullYear(), at.getUTCMonth() + 1), week = Math.floor((number - 1) / 7) + 1;
  const isFive = ((number - 1) % 7) + 29 <= last, seconds = Number(clock?.split(":")[2] ?? 0);
  const all = {
    year: at.getUTCFullYear(), month: at.getUTCMonth() + 1, day: number, weekday: WEEKDAYS[(at.getUTCDay() + 6) % 7], week,
    week_of_4: isFive ? undefined : week, week_of_5: isFive ? week : undefined, hour: at.getUTCHours(), minute: at.getUTCMinutes(), second: seconds,
  };
  for (const [part, value] of Object.entries(date.fixed)) {
    const own = part === "weekday" ? WEEKDAYS.indexOf(all[part]) : all[part];
    if (own !== undefined && own !== (part === "day" ? Math.min(value, last) : value)) throw new Error(`${date.name}: its ${part} is ${all[part]}, and in all rows of the training data ${part === "weekday" ? WEEKDAYS[value] : value}. Fix: choose another.`);
  }
  const own = Object.entries(all).map(([part, value]) => [`${date.name}.${part}`, value]);
  return Object.fromEntries(own.filter(([name, value]) => date.parts.includes(name) && value !== undefined));
}

/** The text of a date or time in the form of the table. Args: cell: name of a part → its value. */
export function textOf(date, cell) {
  const parts = Object.fromEntries([...Object.entries(date.fixed), ...date.parts.map((name) => [name.slice(date.name.length + 1), cell(name)])]);
  const year = Math.round(parts.year), last = daysOf(year, parts.month), first = (new Date(Date.UTC(year, parts.month - 1, 1)).getUTCDay() + 6) % 7;
  let day = Math.min(parts.day ?? 0, last);
  if (parts.day === undefined) {
    day = ((((typeof parts.weekday === "string" ? WEEKDAYS.indexOf(parts.weekday) : parts.weekday) - first) % 7) + 7) % 7 + 1;
    day += 7 * ((parts.week ?? (day + 28 <= last ? parts.week_of_5 : parts.week_of_4)) - 1);
    if (day > last) day -= 7;
  }
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const second = Math.min(Math.max(parts.second, 0), 59.999999), minute = Math.min(Math.max(Math.round(parts.minute), 0), 59);
  const words = { Y: String(year).padStart(4, "0"), y: two(year % 100), m: two(parts.month), d: two(day), b: MONTHS[parts.month - 1], H: two(parts.hour), M: two(minute), S: two(second), f: String(Math.round((second % 1) * 1e6)).padStart(6, "0") };
  return date.form.replace(/%([YymdbHMSf])/g, (_, letter) => words[letter]);
}

function daysOf(year, month) {
  return new Date(Date.UTC(year, month, 0)).getUTCDate();
}
