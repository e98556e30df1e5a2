/**
 * For programs on Node, Deno and Bun: what needs their files.
 *
 * @packageDocumentation
 */
import { readFile, stat } from 'node:fs/promises'
import { invalid } from './check.js'
import { LeaseholdError } from './fault.js'
import type { Url } from './platform.js'

/**
 * The `token` of a client, from a file in which something else keeps one that lasts: a projected token of Kubernetes, a file of SPIFFE. It is read again when it has
 * changed, and when the server rejected the token. While it is missing, empty or half written, the one before is used.
 */
export function tokenFile(path: string | Url): (rejected?: string) => Promise<string> {
  if (!path || !(typeof path === 'string' || path instanceof URL)) throw invalid('path', 'must be the path of a file')
  let seen = ''
  let token: string | undefined // the one to be used
  let before: string | undefined
  /** What the file looks like: which one, how large, of when. */
  const look = async () => {
    const { ino, size, mtimeNs } = await stat(path, { bigint: true })
    return `${ino} ${size} ${mtimeNs}`
  }
  return async (rejected) => {
    try {
      const now = await look()
      if (now !== seen || rejected !== undefined) {
        const text = (await readFile(path, 'utf8')).trim()
        if (!/^[!-~]+$/.test(text)) throw new LeaseholdError(`${String(path)} has no token, which is one word of ASCII`)
        if ((await look()) === now) seen = now // otherwise it is being written, and is read again
        if (text !== token) [before, token] = [token, text]
      }
    } catch (cause) {
      if (token === undefined) throw new LeaseholdError(`there is no token in ${String(path)}`, { cause })
    }
    // The beginning of a token that is half written is one word, too: the one before may still be accepted.
    if (token === rejected && before !== undefined) [before, token] = [token, before]
    return token as string
  }
}
