// SPDX-License-Identifier: Apache-2.0
// Changes how a device is shared.
import { policyAction, type Params } from "../model/actions";
import { plain } from "../model/format";
import type { Device, Policy, PolicyParam } from "../model/types";
import { get, messageOf } from "../net/api";
import type { App } from "./app";
import { openDialog } from "./dialog";
import { button, el, freshId, setText } from "./dom";
import { commandLine } from "./notices";

export async function openPolicyDialog(app: App, device: Device): Promise<void> {
  const body = el("div", {}, el("p.muted", {}, "Reading the policies …"));
  const dialog = openDialog(`How ${device.name} is shared`, body);
  try {
    const { policies } = await get<{ policies: Policy[] }>("/api/v1/policies");
    body.replaceChildren(formOf(app, device, policies, dialog.close));
    body.querySelector("select")?.focus();
  } catch (error) {
    body.replaceChildren(el("p.fault", {}, messageOf(error)));
  }
}

function formOf(app: App, device: Device, policies: Policy[], close: () => void): HTMLElement {
  const present = policies.find((policy) => policy.name === device.policy) ?? policies[0]!;
  let chosen = present;
  let inputs = new Map<string, HTMLInputElement | HTMLSelectElement>();
  const id = freshId("policy");
  const choice = el("select", { id });
  for (const policy of policies)
    choice.append(el("option", { value: policy.name, selected: policy === present }, policy.name));
  const summary = el("p.muted");
  const params = el("div.fields");
  const preview = el("div");
  const fault = el("p.fault", { role: "alert" });
  const save = el("button", { type: "submit" }, "Change");

  function choose(): void {
    chosen = policies.find((policy) => policy.name === choice.value) ?? present;
    inputs = new Map();
    setText(summary, `${sentence(chosen.summary)} ${ratesText(chosen)}`);
    params.replaceChildren(...chosen.params.map((param) => paramField(param)));
    changed();
  }
  function paramField(param: PolicyParam): HTMLElement {
    const value = chosen === present ? device.policy_params[param.name] : undefined;
    const { root, input } = fieldOf(param, value);
    input.addEventListener("input", changed);
    inputs.set(param.name, input);
    return root;
  }
  function changed(): void {
    const { values, wrong } = readParams(chosen, inputs);
    setText(fault, wrong);
    save.disabled = wrong !== "" || app.readOnly;
    preview.replaceChildren(...(wrong ? [] : [commandLine(action(values).command)]));
  }
  const action = (values: Params) =>
    policyAction(device.name, chosen, values, { policy: present, params: device.policy_params });

  const form = el(
    "form",
    { novalidate: true },
    el("div.field", {}, el("label", { for: id }, "Policy"), choice),
    summary,
    params,
    preview,
    fault,
    el("div.buttons", {}, save, button("Cancel", close, { class: "quiet" })),
  );
  choice.addEventListener("change", choose);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { values, wrong } = readParams(chosen, inputs);
    if (wrong) return;
    save.disabled = true;
    void app.act(action(values)).then((failed) => {
      save.disabled = false;
      if (failed) setText(fault, failed);
      else close();
    });
  });
  choose();
  return form;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function ratesText(policy: Policy): string {
  if (!policy.keeps_rates) return "It ignores promised rates and latencies: they are only reported.";
  const unless = policy.keeps_rates_unless_zero;
  return `It keeps promised rates and latencies${unless ? `, unless ${unless} is 0` : ""}.`;
}

function fieldOf(
  param: PolicyParam,
  value: number | string | undefined,
): { root: HTMLElement; input: HTMLInputElement | HTMLSelectElement } {
  const id = freshId("param");
  const hint = el("span.hint", { id: `${id}-hint` });
  const label = el("label", { for: id }, param.name);
  if (param.choices) {
    const preset = param.choices[param.default];
    const input = el("select", { id, "aria-describedby": `${id}-hint` });
    for (const name of param.choices)
      input.append(el("option", { value: name, selected: name === (value ?? preset) }, name));
    setText(hint, param.summary);
    return { root: el("div.field", {}, label, input, hint), input };
  }
  if (param.unit === "switch") {
    const input = el("select", { id, "aria-describedby": `${id}-hint` });
    for (const [number, name] of ["0: off", "1: on"].entries())
      input.append(el("option", { value: number, selected: number === Number(value ?? param.default) }, name));
    setText(hint, param.summary);
    return { root: el("div.field", {}, label, input, hint), input };
  }
  const input = el("input", {
    id,
    inputmode: "decimal",
    autocomplete: "off",
    "aria-describedby": `${id}-hint`,
    value: plain(Number(value ?? param.default), 6),
  });
  setText(
    hint,
    `${param.summary}; ${plain(param.min, 6)} to ${plain(param.max, 6)}${param.unit ? ` ${param.unit}` : ""}`,
  );
  return { root: el("div.field", {}, label, input, hint), input };
}

function readParams(
  policy: Policy,
  inputs: Map<string, HTMLInputElement | HTMLSelectElement>,
): { values: Params; wrong: string } {
  const values: Params = {};
  let wrong = "";
  for (const param of policy.params) {
    const input = inputs.get(param.name);
    if (!input) continue;
    if (param.choices) {
      values[param.name] = input.value;
      continue;
    }
    const text = input.value.trim().replace(",", ".");
    const value = text === "" ? param.default : Number(text);
    if (!(value >= param.min && value <= param.max))
      wrong ||= `${param.name} is from ${plain(param.min, 6)} to ${plain(param.max, 6)}.`;
    values[param.name] = value;
  }
  return { values, wrong };
}
