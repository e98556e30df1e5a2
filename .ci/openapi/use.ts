// A program that uses the generated types. It must compile; so must the lines that are expected to be wrong.
import type { components, paths } from "./api";
import type { components as internal } from "./internal";

type Grant = components["schemas"]["RunGrant"];

export function describe(grant: Grant): string {
  if (grant.acquired) {
    const token: number = grant.fencing_token;
    return `token ${token} until ${grant.expires_at}`;
  }
  // @ts-expect-error there is no token without a grant
  grant.fencing_token;
  const reason: "already_finished" | "locked" | "not_due" = grant.reason;
  return reason;
}

type Acquire = paths["/v1/tenants/{tenant_id}/locks/{lock_key}/acquire"]["post"];

export const request: Acquire["requestBody"]["content"]["application/json"] = { request_id: "r1", ttl_seconds: 30 };
export const oneOfTen: Acquire["requestBody"]["content"]["application/json"] = { request_id: "r1", mode: "rate", limit: 10, window_seconds: 60 };
// @ts-expect-error request_id is required
export const incomplete: Acquire["requestBody"]["content"]["application/json"] = { ttl_seconds: 30 };
// @ts-expect-error there is no such mode
export const another: Acquire["requestBody"]["content"]["application/json"] = { request_id: "r1", ttl_seconds: 30, mode: "writer" };

export function holder(problem: Acquire["responses"][409]["content"]["application/problem+json"]): string | undefined {
  return problem.code === "LOCK_HELD" ? problem.owner_id : undefined;
}

// @ts-expect-error there is no such code
export const none: components["schemas"]["Problem"]["code"] = "TEAPOT";

export const done: internal["schemas"]["TaskDone"] = { outcome: "ready", analysis_id: "a1" };
