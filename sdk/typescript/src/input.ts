/**
 * What a run is about: the fingerprint of its input, and names that are made of parts.
 *
 * @module
 */
import { invalid } from './check.js'
import { LeaseholdError } from './fault.js'

/**
 * What {@link Runs.once} compares of its input, for callers of {@link Runs.run}: 43 characters, the SHA-256 of the input's canonical JSON (RFC 8785) in base64url. Equal
 * values have equal fingerprints, whatever the order of their members, and clients in other languages make the same ones.
 *
 * @throws an InvalidSettingError for what JSON does not have (NaN, a BigInt, a Map, an object of a class without `toJSON`, a circle), or has twice (a string with half a character);
 * members that are undefined count as missing
 */
export async function fingerprint(input: unknown): Promise<string> {
  const text = canonical(input)
  if (!globalThis.crypto?.subtle) throw new LeaseholdError('a fingerprint needs crypto.subtle, which this page has with https only')
  const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)))
  return btoa(String.fromCharCode(...sum)).replaceAll('+', '-').replaceAll('/', '_').replace('=', '')
}

/** A value in canonical JSON. */
export function canonical(input: unknown): string {
  const within = new Set<object>()
  const refuse = (where: string, why: string) => invalid('input', `has no fingerprint: ${where} ${why}`)
  const text = (s: string, where: string): string => {
    if (/[\ud800-\udfff]/u.test(s)) throw refuse(where, 'is no valid Unicode')
    return JSON.stringify(s)
  }
  const write = (v: unknown, where: string, name: string): string => {
    switch (typeof v) {
      case 'boolean':
        return String(v)
      case 'string':
        return text(v, where)
      case 'number':
        if (!Number.isFinite(v)) throw refuse(where, `is ${v}, which JSON does not have`)
        return JSON.stringify(v)
      case 'object':
        if (v === null) return 'null'
        break
      default:
        throw refuse(where, `is ${typeof v === 'undefined' ? 'undefined' : `a ${typeof v}`}, which JSON does not have${typeof v === 'bigint' ? ': give its text' : ''}`)
    }
    if (within.has(v)) throw refuse(where, 'is within itself')
    within.add(v)
    try {
      const { toJSON } = v as { toJSON?: unknown }
      if (typeof toJSON === 'function') return write(toJSON.call(v, name), where, name)
      if (Array.isArray(v)) return `[${Array.from(v, (e, i) => write(e, `${where}[${i}]`, String(i))).join()}]`
      const proto = Object.getPrototypeOf(v) as object | null
      if (proto && Object.getPrototypeOf(proto)) {
        const { name } = v.constructor as { name?: unknown }
        throw refuse(where, `is a ${String(name)}, of which JSON may not have all: give a plain object, or the class a toJSON`)
      }
      const members = Object.entries(v).filter(([, member]) => member !== undefined)
      members.sort(([a], [b]) => (a < b ? -1 : 1)) // by their UTF-16
      return `{${members.map(([k, member]) => `${text(k, `a name in ${where}`)}:${write(member, `${where}.${k}`, k)}`).join()}}`
    } finally {
      within.delete(v)
    }
  }
  return write(input, 'input', '')
}

/**
 * A name of a run that is made of parts: key`invoice-${customer}-${month}`. Different parts make different names, also ('1-2', '3') and ('1', '2-3'): in a part "~", "/" and the
 * character after it in the template are written as ~ and their bytes in hexadecimal digits, such as ~2D. Everything else is as it is.
 *
 * @throws an InvalidSettingError for two parts without text between them, or one that begins with a digit, A to F or ~; for a part that is no text, finite number, BigInt or boolean
 */
export function key(texts: TemplateStringsArray, ...parts: readonly (string | number | bigint | boolean)[]): string {
  let made = texts[0] ?? ''
  parts.forEach((part: unknown, i) => {
    const after = texts[i + 1] ?? ''
    const [next = ''] = i + 1 < parts.length ? after : []
    if (i + 1 < parts.length && /^[0-9A-F~]?$/.test(next)) {
      throw invalid('key', `needs text between its parts ${i + 1} and ${i + 2} that does not begin with a digit, A to F or ~, or other parts could make the same name`)
    }
    if (!(typeof part === 'string' || typeof part === 'bigint' || typeof part === 'boolean' || Number.isFinite(part)) || /[\ud800-\udfff]/u.test(String(part))) {
      throw invalid('key', `has a part ${i + 1} that is ${typeof part === 'number' ? part : part === null ? 'null' : `a ${typeof part}`}: must be text in valid Unicode, a finite number, a BigInt or a boolean`)
    }
    const escaped = Array.from(String(part), (c) => (c === '~' || c === '/' || c === next ? Array.from(new TextEncoder().encode(c), (b) => `~${b.toString(16).toUpperCase().padStart(2, '0')}`).join('') : c))
    made += escaped.join('') + after
  })
  return made
}
