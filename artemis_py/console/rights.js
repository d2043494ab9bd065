// What the user may not do: such actions are shown, cannot be pressed, and say which permission is missing.

import { asking, path, read } from "./api.js";
import { plain } from "./format.js";

/** Return the permissions that are missing for a resource, such as `broker` or `queue.orders`, by operation. */
export async function missingFor(resource, signal) {
  const { missing } = await read(asking(path("whoami"), { resource: resource === "broker" ? null : resource }), signal);
  return missing[resource] ?? {};
}

/** Let a button be pressed if that does something now, and the user may call its operation; return it. */
export function allow(made, missing, operation, isUseful = true) {
  const lacking = missing[operation];
  made.disabled = !isUseful || lacking !== undefined;
  if (lacking === undefined) {
    made.removeAttribute("title");
  } else {
    made.title = plain(`You lack the permission ${lacking.permission} on ${lacking.on}`);
  }
  return made;
}
