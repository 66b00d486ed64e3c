import { OptionError } from '../errors.js'
import { shown } from '../shown.js'

/** Throws an `OptionError` if the options of a store are not an object, or contain an option that does not exist. */
export function assertOptionNames (options: unknown, names: readonly string[]): void {
  if (typeof options !== 'object' || options === null) throw new OptionError('options', 'must be an object', shown(options))
  for (const [name, value] of Object.entries(options)) {
    if (!names.includes(name)) throw new OptionError(name, 'does not exist', shown(value))
  }
}
