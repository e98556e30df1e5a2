/**
 * Types of the platform, as the program that uses this package has them: of its DOM library, of @types/node or of another runtime. Without any of them they are the
 * least that this package needs, so that its declarations ask for no library.
 *
 * @module
 */

/** The AbortSignal of the platform. */
export type AbortSignal = typeof globalThis extends { AbortSignal: { prototype: infer T } } ? T : {
  readonly aborted: boolean
  readonly reason: unknown
  throwIfAborted(): void
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** The fetch of the platform. */
export type Fetch = typeof globalThis extends { fetch: infer T } ? T : (url: string, init: object) => Promise<unknown>

/** The Request of the platform. */
export type Request = typeof globalThis extends { Request: { prototype: infer T } } ? T : { readonly url: string; readonly headers: { get(name: string): string | null } }

/** The Response of the platform. */
export type Response = typeof globalThis extends { Response: { prototype: infer T } } ? T : { readonly status: number; readonly headers: { get(name: string): string | null } }

/** The URL of the platform. */
export type Url = typeof globalThis extends { URL: { prototype: infer T } } ? T : { readonly href: string }

/** The handle of a folder, in browsers. */
export type FileSystemDirectoryHandle = typeof globalThis extends {
  FileSystemDirectoryHandle: { prototype: infer T extends { getFileHandle: unknown; removeEntry: unknown } }
} ? T : { getFileHandle(name: string, options?: { create?: boolean }): Promise<unknown>; removeEntry(name: string): Promise<void> }

/** Web Locks, in browsers. */
export type LockManager = typeof globalThis extends { LockManager: { prototype: infer T extends { request: unknown } } } ? T
  : { request(name: string, options: object, callback: (lock: unknown) => unknown): Promise<unknown> }
