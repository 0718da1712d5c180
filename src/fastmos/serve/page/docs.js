// The operations of openapi.json, with the fields that they take and give.

import { make } from "./draw.js";

const api = await (await fetch("/openapi.json")).json();
const find = schema => (schema?.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : schema);

function type(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(type).filter(name => name !== "null").join(" or ");
  if (schema.type === "array") return schema.prefixItems ? "pair" : `list of ${type(schema.items) || "values"}`;
  return schema.format === "binary" ? "file" : (schema.type ?? "");
}

function limits(schema) {
  const inner = schema.anyOf?.[0] ?? schema;
  const low = inner.minimum ?? inner.exclusiveMinimum;
  const high = inner.maximum ?? inner.exclusiveMaximum;
  return low === undefined && high === undefined ? "" : `${low ?? ""} to ${high ?? ""}`;
}

function cells(...content) {
  return content.map(text => make("td", "", text));
}

function fields(title, schema, taken) {
  const table = make("table", "fields");
  const head = make("tr");
  const columns = taken ? ["field", "type", "default", "what it is"] : ["field", "type", "what it is"];
  head.append(...columns.map(name => Object.assign(make("th", "", name), { scope: "col" })));
  table.append(make("caption", "", title), head);
  for (const [name, field] of Object.entries(schema?.properties ?? {})) {
    const row = make("tr");
    const first = make("th");
    first.scope = "row";
    first.append(make("code", "", name));
    const given = field.default === undefined || field.default === null ? "" : JSON.stringify(field.default);
    const needed = schema.required?.includes(name) ? "needed" : given;
    const about = [field.description, limits(field)].filter(Boolean).join("; ");
    row.append(first, ...cells(type(field), ...(taken ? [needed] : []), about));
    table.append(row);
  }
  return table;
}

function section(title, about, ...tables) {
  const made = make("section");
  const heading = make("h3");
  heading.append(make("code", "", title));
  made.append(heading, make("p", "", about), ...tables);
  return made;
}

document.getElementById("about").textContent = api.info.description;
const messages = new Map();
function collect(schema) {
  for (const name of JSON.stringify(schema ?? "").matchAll(/#\/components\/schemas\/(\w+)/g)) {
    if (messages.has(name[1])) continue;
    messages.set(name[1], api.components.schemas[name[1]]);
    collect(api.components.schemas[name[1]]);
  }
}
const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => {
    const content = Object.values(operation.requestBody?.content ?? {})[0];
    const answer = find(operation.responses["200"]?.content?.["application/json"]?.schema);
    collect(answer);
    const tables = content ? [fields("takes", find(content.schema), true)] : [];
    if (answer?.properties) tables.push(fields("gives", answer, false));
    return section(`${method.toUpperCase()} ${path}`, operation.summary, ...tables);
  }),
);
const parts = [...messages].map(([name, schema]) => section(name, schema.description ?? "", fields("has", schema, false)));
document.getElementById("operations").replaceChildren(...operations, ...parts);
