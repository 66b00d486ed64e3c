import { OptionError } from '../errors.js'

/** Throws an `OptionError` unless the value is a usable prefix. */
export function assertPrefix (prefix: unknown): asserts prefix is string {
  if (typeof prefix !== 'string' || !prefix.startsWith('/')) {
    throw new OptionError('prefix', 'must start with "/"', prefix)
  }
}

/** Returns the prefix without a trailing slash, because application paths start with one. */
export function normalizePrefix (prefix: string): string {
  return prefix.endsWith('/') ? prefix.slice(0, -1) : prefix
}

/** Returns the application path of a route's pattern: the pattern without the prefix, if it starts with the prefix. */
export function applicationPath (pattern: string, prefix: string): string {
  return pattern.startsWith(`${prefix}/`) ? pattern.slice(prefix.length) : pattern
}
