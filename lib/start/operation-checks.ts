import createRouter from 'find-my-way'
import { OptionError, shown } from '../errors.js'
import type { Operation } from '../subject/operation.js'
import type { QuotaOperations } from '../subject/operation-matcher.js'
import { defaultQuota } from '../subject/quota-name.js'
import type { RouterOptions } from '../subject/router-options.js'

/** An operation, and the option that determines its path. */
export interface ListedOperation extends Operation {
  readonly option: string
}

/** Returns the operations of all quotas with their options, in the order of the options. */
export function listOperations (quotas: readonly QuotaOperations[]): ListedOperation[] {
  return quotas.flatMap(({ name, operations }) => {
    const option = name === defaultQuota ? 'operations' : `quotas.${name}.operations`
    return operations.map((operation) => ({ ...operation, option }))
  })
}

/** Throws an `OptionError` if the host's router does not accept the path of an operation, or if it treats two operations as the same. */
export function assertRoutable (operations: readonly ListedOperation[], prefix: string, options: RouterOptions): void {
  for (const method of new Set(operations.map(methodOf))) {
    const router = createRouter(options)
    for (const { option, path: applicationPath } of operations.filter((operation) => methodOf(operation) === method)) {
      const path = prefix + applicationPath
      try {
        router.on('GET', path, () => {})
      } catch (error) {
        if (router.find('GET', path) !== null) throw new OptionError(option, 'contains an operation that is already listed, for this quota or for another', path)
        throw new OptionError(option, `results in a path that the router does not accept (${String(error)})`, shown(path))
      }
    }
  }
}

function methodOf ({ method }: Operation): string {
  return method.toUpperCase()
}
