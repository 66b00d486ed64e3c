import { OptionError } from '../errors.js'

/** The name of the default quota. */
export const defaultQuota = 'default'

const quotaName = /^[a-z][a-z0-9-]{0,31}$/

/** Throws an `OptionError` unless the name is valid for a quota other than the default one. */
export function assertQuotaName (name: string, option: string): void {
  if (name === defaultQuota || !quotaName.test(name)) {
    throw new OptionError(option, `must have names of at most 32 characters from a-z, 0-9 and "-" that start with a letter and are not "${defaultQuota}"`, name)
  }
}
