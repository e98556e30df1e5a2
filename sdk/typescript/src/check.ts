/**
 * Arguments that cannot work, before anything is sent.
 *
 * @module
 */
import { InvalidSettingError } from './fault.js'

/** The error of an argument that cannot work. */
export const invalid = (field: string, detail: string): InvalidSettingError => new InvalidSettingError(field, detail)

/** Checks a text that is part of a request. */
export function checkText(field: string, s: unknown, most: number): string {
  if (typeof s !== 'string' || s === '' || new TextEncoder().encode(s).length > most) throw invalid(field, `must be a text of 1 to ${most} bytes`)
  // eslint-disable-next-line no-control-regex
  if (/[\u0000-\u001f\u007f-\u009f\ud800-\udfff]/u.test(s)) throw invalid(field, 'must be text without control characters')
  return s
}

/** Checks a number that is to be a multiple of a unit, if there is one. */
export function checkNumber(field: string, n: unknown, least: number, most: number, unit = 0): number {
  if (typeof n !== 'number' || !(n >= least && n <= most) || (unit > 0 && n % unit !== 0)) {
    throw invalid(field, `is ${typeof n === 'number' ? n : typeof n}: must be ${least} ${most === Infinity ? 'or more' : `to ${most}`}${unit ? `, in steps of ${unit}` : ''}`)
  }
  return n
}

/** Checks the labels of a lease. */
export function checkLabels(field: string, labels: Readonly<Record<string, string>> = {}): void {
  checkObject(field, labels)
  if (Object.keys(labels).length > 32) throw invalid(field, 'must have 32 at most')
  for (const [k, v] of Object.entries(labels)) {
    checkText(field, k, 64)
    if (v !== '') checkText(`${field}.${k}`, v, 512)
  }
}

export function checkObject(field: string, v: unknown): void {
  if (typeof v !== 'object' || v === null) throw invalid(field, 'must be an object')
}

export function checkFunction(field: string, v: unknown): void {
  if (typeof v !== 'function') throw invalid(field, 'must be a function')
}
