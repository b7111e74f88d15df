/** A form for a part of a scenario, made from the JSON Schema: every key with its range, unit and documentation. */

import { type ScenarioDocument, mistakesOf } from "./document";
import { h } from "./dom";
import type { Range } from "./knobs";
import type { Scenario, Tree } from "./messages";
import { type Edit, freeName, isPart, newPart, PARTS, removals, renames } from "./parts";
import type { Selection } from "./stage";

type Schema = { [key: string]: Tree };

const isTable = (tree: Tree | undefined): tree is { [key: string]: Tree } =>
  typeof tree === "object" && tree !== null && !Array.isArray(tree);

export class Form {
  private selection: Selection = { kind: "run", name: "" };
  /** Parts that a person has opened stay open when the form is made anew. */
  private readonly open = new Set<string>();

  constructor(
    private readonly box: HTMLElement,
    private readonly schema: Schema,
    private readonly scenario: ScenarioDocument,
    private readonly onPin: (path: string[], range: Range) => void,
    private readonly canPin: (path: string[]) => boolean,
  ) {}

  select(selection: Selection) {
    this.selection = selection;
    this.show();
  }

  show() {
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.id : "";
    const tree = this.scenario.good?.opened.scenario;
    if (!tree) return this.box.replaceChildren(h("p", {}, "There is no scenario yet."));
    let { kind, name } = this.selection;
    const parts: [Selection["kind"], string][] = [
      ["run", ""],
      ...Object.keys(tree.links).map((link): [Selection["kind"], string] => ["link", link]),
      ...Object.keys(tree.paths).map((path): [Selection["kind"], string] => ["path", path]),
      ...Object.keys(tree.flows).map((flow): [Selection["kind"], string] => ["flow", flow]),
      ["sweep", ""],
    ];
    if (!parts.some(([one, other]) => one === kind && other === name)) [kind, name] = ["run", ""];
    const chooser = h("select", { id: "part", "aria-label": "Part of the scenario" });
    for (const [one, other] of parts) {
      const value = `${one}/${other}`;
      chooser.append(
        h("option", { value, selected: value === `${kind}/${name}` }, other ? `${one} ${other}` : `the ${one}`),
      );
    }
    chooser.onchange = () => {
      const [one, ...other] = chooser.value.split("/");
      this.select({ kind: one as Selection["kind"], name: other.join("/") });
    };
    const definition = { run: "RunConfig", link: "LinkConfig", path: "PathConfig", flow: "FlowConfig", sweep: "Sweep" }[
      kind
    ];
    const schema = this.definition(definition);
    const path = name ? [`${kind}s`, name] : [kind];
    const { sweep } = this.scenario.good?.opened ?? {};
    const value = { run: tree.run, link: tree.links[name], path: tree.paths[name], flow: tree.flows[name], sweep }[
      kind
    ];
    const fields = this.fields(schema, path, value as Tree);
    if (kind === "run")
      fields.unshift(
        this.field(
          ["seed"],
          { type: "integer", minimum: 0, description: "Every random stream is derived from it." },
          tree.seed,
        ),
      );
    const scroll = this.box.scrollTop;
    const parted = h("label", { class: "part" }, "Settings of ", chooser);
    this.box.replaceChildren(parted, ...this.structure(kind, name, tree), ...fields);
    this.box.scrollTop = scroll;
    // A part that is no longer there leaves the choice of another.
    if (focused) (document.getElementById(focused) ?? chooser).focus({ preventScroll: true });
    this.complain();
  }

  /** What the network is made of: parts are named, taken away and added. */
  private structure(kind: Selection["kind"], name: string, tree: Scenario): HTMLElement[] {
    const button = (id: string, label: string, act: () => void) =>
      h("button", { type: "button", class: "small", id, onclick: act }, label);
    const change = async (edits: Edit[], selection: Selection) => {
      this.selection = selection;
      await this.scenario.setAll(edits);
    };
    const adds = PARTS.map((part) =>
      button(`add-${part}`, `Add a ${part}`, () => {
        const fresh = freeName(tree, part);
        void change([[[`${part}s`, fresh], newPart(tree, part)]], { kind: part, name: fresh });
      }),
    );
    const rows = [h("div", { class: "controls" }, ...adds)];
    if (isPart(kind) && name) {
      const input = h("input", {
        type: "text",
        id: "part-name",
        value: name,
        spellcheck: "false",
        autocomplete: "off",
      });
      input.onchange = async () => {
        const other = input.value.trim();
        if (!other || other === name) return;
        this.selection = { kind, name: other };
        await this.scenario.rename([`${kind}s`, name], other, renames(tree, kind, name, other));
      };
      const remove = button(
        "remove-part",
        `Remove ${kind} ${name}`,
        () => void change(removals(tree, kind, name), { kind: "run", name: "" }),
      );
      rows.unshift(h("div", { class: "controls" }, h("label", {}, "Name ", input), remove));
    }
    return rows;
  }

  /** Puts the sentence about a mistake at its field. */
  complain() {
    for (const old of this.box.querySelectorAll(".field .mistake")) old.remove();
    for (const old of this.box.querySelectorAll("[aria-invalid]")) old.removeAttribute("aria-invalid");
    for (const { key, sentence } of mistakesOf(this.scenario.mistake)) this.complainOf(key, sentence);
  }

  private complainOf(key: string[], sentence: string) {
    for (let length = key.length; length > 0; length--) {
      const field = this.box.querySelector<HTMLElement>(
        `.field[data-path="${CSS.escape(key.slice(0, length).join("."))}"]`,
      );
      if (!field) continue;
      field.append(h("p", { class: "mistake", role: "alert" }, sentence));
      field.querySelector("input, select")?.setAttribute("aria-invalid", "true");
      for (let part = field.closest("details"); part; part = part.parentElement?.closest("details") ?? null)
        part.open = true;
      return;
    }
  }

  private definition(name: string): Schema {
    const definitions = this.schema["$defs"];
    const found = isTable(definitions) ? definitions[name] : undefined;
    return isTable(found) ? found : {};
  }

  /** Without references and without null. */
  private resolved(schema: Schema): Schema {
    const reference = schema["$ref"];
    if (typeof reference === "string") {
      const found = this.resolved(this.definition(reference.split("/").at(-1) ?? ""));
      return { ...found, ...schema, $ref: null, hint: found["hint"] ?? found["description"] ?? null };
    }
    const choices = schema["anyOf"];
    if (Array.isArray(choices)) {
      const real = choices.filter((choice): choice is Schema => isTable(choice) && choice["type"] !== "null");
      const [first] = real;
      if (!first) return schema;
      if (real.length === 1) return { ...this.resolved(first), ...schema, anyOf: null, isOptional: true };
      // A value or a timetable of such values, a word with a unit or a number: the first says what it is.
      const value = this.resolved(first);
      const pick = (key: string) => value[key] ?? null;
      const said = { hint: value["hint"] ?? value["description"] ?? null, isOptional: real.length < choices.length };
      return { ...schema, ...said, minimum: pick("minimum"), maximum: pick("maximum"), anyOf: null };
    }
    return schema;
  }

  private fields(schema: Schema, path: string[], value: Tree | undefined): HTMLElement[] {
    const properties = schema["properties"];
    if (!isTable(properties)) return [];
    return Object.entries(properties).flatMap(([key, one]) => {
      if (!isTable(one) || (key === "kind" && "const" in one)) return [];
      return [this.field([...path, key], one, isTable(value) ? value[key] : undefined)];
    });
  }

  private field(path: string[], given: Schema, value: Tree | undefined): HTMLElement {
    const schema = this.resolved(given);
    const name = path.at(-1) ?? "";
    const dotted = path.join(".");
    const about = typeof given["description"] === "string" ? given["description"] : String(schema["description"] ?? "");
    const choices = schema["oneOf"];
    const kinds = Array.isArray(choices) ? choices.filter(isTable) : [];
    const isTagged = kinds.some((kind) => isTable(kind["properties"]) && "kind" in kind["properties"]);
    if (isTagged) return this.tagged(path, kinds, value, about, !!schema["isOptional"]);
    if (isTable(schema["properties"]) && (isTable(value) || schema["isOptional"])) {
      if (!isTable(value)) return this.absent(path, about);
      return this.part(dotted, name, about, this.fields(schema, path, value));
    }
    const words = kinds.map((kind) => kind["const"]).filter((word): word is string => typeof word === "string");
    return this.plain(path, schema, value, about, words, kinds);
  }

  /** A part of the form that can be folded. */
  private part(dotted: string, name: string, about: string, fields: HTMLElement[]): HTMLElement {
    const part = h(
      "details",
      { class: "field", "data-path": dotted, open: this.open.has(dotted) },
      h("summary", {}, name),
      h("p", { class: "about" }, about),
      ...fields,
    );
    part.ontoggle = () => (part.open ? this.open.add(dotted) : this.open.delete(dotted));
    return part;
  }

  private tagged(
    path: string[],
    kinds: Schema[],
    value: Tree | undefined,
    about: string,
    isOptional: boolean,
  ): HTMLElement {
    const dotted = path.join(".");
    const kindOf = (kind: Schema): string => {
      const properties = kind["properties"];
      const tag = isTable(properties) && isTable(properties["kind"]) ? properties["kind"]["const"] : kind["const"];
      return typeof tag === "string" ? tag : "";
    };
    const now = isTable(value) ? String(value["kind"] ?? "") : typeof value === "string" ? value : "";
    const select = h("select", { id: `key-${dotted}.kind`, "aria-label": `${path.at(-1)}, kind` });
    if (isOptional || !now) select.append(h("option", { value: "", selected: !now }, "not set"));
    for (const kind of kinds)
      select.append(h("option", { value: kindOf(kind), selected: kindOf(kind) === now }, kindOf(kind)));
    select.onchange = () => void this.scenario.set(path, select.value ? { kind: select.value } : null);
    const chosen = kinds.find((kind) => kindOf(kind) === now);
    const fields = chosen ? this.fields(chosen, path, value) : [];
    const pin = this.pinOf(path, {
      choices: kinds.map(kindOf).map((kind) => ({ label: kind, value: `{ kind = "${kind}" }` })),
    });
    const row = h("div", { class: "row" }, h("label", { for: select.id }, path.at(-1) ?? ""), select, pin);
    const help = h(
      "p",
      { class: "about" },
      [about, typeof chosen?.["description"] === "string" ? chosen["description"] : ""].filter(Boolean).join(" "),
    );
    const inner = fields.length ? [this.part(`${dotted}.`, `${now}: its settings`, "", fields)] : [];
    return h("div", { class: "field", "data-path": dotted }, row, help, ...inner);
  }

  private absent(path: string[], about: string): HTMLElement {
    const add = h("button", { type: "button", class: "small" }, "Add");
    add.onclick = () => void this.scenario.set(path, {});
    return h(
      "div",
      { class: "field", "data-path": path.join(".") },
      h(
        "div",
        { class: "row" },
        h("span", { class: "name" }, path.at(-1) ?? ""),
        h("span", { class: "quiet" }, "not set"),
        add,
      ),
      h("p", { class: "about" }, about),
    );
  }

  private plain(
    path: string[],
    schema: Schema,
    value: Tree | undefined,
    about: string,
    words: string[],
    kinds: Schema[],
  ): HTMLElement {
    const dotted = path.join(".");
    const id = `key-${dotted}`;
    const standard = schema["default"];
    let control: HTMLSelectElement | HTMLInputElement;
    const isFlag = typeof value === "boolean" || (schema["type"] === "boolean" && value === undefined);
    if (words.length > 0 && (typeof value !== "object" || value === null)) {
      const select = h("select", { id });
      if (value === undefined || value === null || schema["isOptional"])
        select.append(h("option", { value: "", selected: value === undefined || value === null }, "default"));
      for (const word of words) select.append(h("option", { value: word, selected: word === value }, word));
      select.onchange = () => void this.scenario.set(path, select.value || null);
      control = select;
    } else if (isFlag) {
      const box = h("input", { id, type: "checkbox", checked: value === true });
      box.onchange = () => void this.scenario.set(path, box.checked);
      control = box;
    } else {
      const text =
        value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);
      const input = h("input", {
        id,
        type: "text",
        value: text,
        spellcheck: "false",
        autocomplete: "off",
        placeholder: typeof standard === "string" || typeof standard === "number" ? String(standard) : "default",
      });
      input.onchange = () => void this.scenario.set(path, meant(input.value));
      control = input;
    }
    const chosen = kinds.find((kind) => kind["const"] === value);
    const range = [
      typeof schema["minimum"] === "number" ? `from ${schema["minimum"]}` : "",
      typeof schema["maximum"] === "number" ? `to ${schema["maximum"]}` : "",
    ].filter(Boolean);
    const hint = typeof schema["hint"] === "string" && schema["hint"] !== about ? `${schema["hint"]}.` : "";
    const texts = [
      about,
      typeof chosen?.["description"] === "string" ? `Now: ${chosen["description"]}` : "",
      hint,
      range.length ? `A number ${range.join(" ")}.` : "",
    ];
    const bound = (key: string) => (typeof schema[key] === "number" ? { [key]: schema[key] } : {});
    const pinned = words.length
      ? { choices: words.map((word) => ({ label: word, value: word })) }
      : { ...bound("minimum"), ...bound("maximum"), isWhole: schema["type"] === "integer" };
    control.setAttribute("aria-describedby", `${id}-about`);
    return h(
      "div",
      { class: "field", "data-path": dotted },
      h("div", { class: "row" }, h("label", { for: id }, path.at(-1) ?? ""), control, this.pinOf(path, pinned)),
      h("p", { class: "about", id: `${id}-about` }, texts.filter(Boolean).join(" ")),
    );
  }

  private pinOf(path: string[], range: Range): HTMLElement | null {
    if (!range.choices && !this.canPin(path)) return null;
    const pin = h("button", { type: "button", class: "small", title: "Make it a slider" }, "Slider");
    pin.setAttribute("aria-label", `Make ${path.join(".")} a slider`);
    pin.onclick = () => this.onPin(path, range);
    return pin;
  }
}

/** What a person has typed, as a value: JSON where it is JSON, text otherwise, nothing where it is empty. */
function meant(text: string): Tree {
  const trimmed = text.trim();
  if (!trimmed) return null;
  try {
    return JSON.parse(trimmed) as Tree;
  } catch {
    return trimmed;
  }
}
