// SPDX-License-Identifier: Apache-2.0
// Asks for the token where it is missing or wrong.
import { getToken, setToken } from "../net/token";
import { openDialog } from "./dialog";
import { el, freshId } from "./dom";

let open = false;

export function askForToken(retry: () => void): void {
  if (open) return;
  open = true;
  const id = freshId("token");
  const input = el("input", { id, type: "password", autocomplete: "off", required: true, spellcheck: "false" });
  const form = el(
    "form",
    {},
    el("p", {}, getToken() ? "The server refuses this page's token." : "This dashboard needs a token."),
    el(
      "p.muted",
      {},
      "It is in the address that weir dashboard prints, after #token=. The daemon keeps it in its run folder, as dashboard.token.",
    ),
    el("div.field", {}, el("label", { for: id }, "Token"), input),
    el("div.buttons", {}, el("button", { type: "submit" }, "Connect")),
  );
  const dialog = openDialog("Token", form);
  dialog.root.addEventListener("close", () => (open = false));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(input.value);
    dialog.close();
    retry();
  });
  input.focus();
}
