// SPDX-License-Identifier: Apache-2.0
// Requests to the dashboard's server.
import type { Action } from "../model/actions";
import { getToken } from "./token";

export class ApiError extends Error {
  constructor(
    readonly status: number, // 0: no answer
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

const PATIENCE_MS = 10_000;

export function headers(): Record<string, string> {
  const token = getToken();
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await request("GET", path, undefined, signal)) as T;
}

export async function carryOut(action: Action): Promise<unknown> {
  return request(action.method, action.path, action.body);
}

async function request(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<unknown> {
  const timeout = AbortSignal.timeout(PATIENCE_MS);
  const init: RequestInit = { method, headers: headers(), signal: signal ? anyOf(signal, timeout) : timeout };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...headers(), "Content-Type": "application/json" };
  }
  let reply: Response;
  try {
    reply = await fetch(path, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "unavailable", "the dashboard's server does not answer");
  }
  if (!reply.ok) throw await errorOf(reply);
  try {
    const text = await reply.text();
    return text ? JSON.parse(text) : null;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "protocol", "the server's answer is cut off or malformed");
  }
}

export async function errorOf(reply: Response): Promise<ApiError> {
  const text = await reply.text().catch(() => "");
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string } };
    return new ApiError(reply.status, error.code, error.message);
  } catch {
    return new ApiError(reply.status, "protocol", `the server answers ${reply.status} ${reply.statusText}`);
  }
}

function anyOf(...signals: AbortSignal[]): AbortSignal {
  const controller = new AbortController();
  for (const signal of signals) {
    if (signal.aborted) controller.abort(signal.reason);
    signal.addEventListener("abort", () => controller.abort(signal.reason), { once: true, signal: controller.signal });
  }
  return controller.signal;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
