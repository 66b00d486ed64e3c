import { OptionError, shown } from './errors.js'

/** Throws, naming the option, unless it can stand before a path. */
export function assertPrefix (prefix: unknown): asserts prefix is string {
  if (typeof prefix !== 'string' || !prefix.startsWith('/')) {
    throw new OptionError('prefix', 'must start with "/"', shown(prefix))
  }
}

/** The deployment context prefix as it stands before an application path, which starts with its own slash. */
export function normalizePrefix (prefix: string): string {
  return prefix.endsWith('/') ? prefix.slice(0, -1) : prefix
}
