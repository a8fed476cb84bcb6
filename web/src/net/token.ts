// SPDX-License-Identifier: Apache-2.0
// The token of the dashboard: of this tab only, and never in the address bar.
import { tokenIn } from "../model/route";

const KEY = "weir-token";

/** Takes a token out of the address, as `weir dashboard` prints it. */
export function takeToken(): void {
  const token = tokenIn(location.hash);
  if (token === null) return;
  setToken(token);
  history.replaceState(null, "", `${location.pathname}#/`);
}

export function getToken(): string {
  return sessionStorage.getItem(KEY) ?? "";
}

export function setToken(token: string): void {
  sessionStorage.setItem(KEY, token.trim());
}
