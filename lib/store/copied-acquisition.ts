import type { Acquisition } from './store.js'

/** An acquisition with the fields of another one, in which a store keeps more. */
export class CopiedAcquisition implements Acquisition {
  readonly admitted: boolean
  readonly granted: number
  readonly count: number
  readonly held: number
  readonly windowRemaining: number | null
  readonly overflow: boolean
  declare readonly end?: number
  declare readonly isRemembered?: true

  constructor (original: Acquisition) {
    this.admitted = original.admitted
    this.granted = original.granted
    this.count = original.count
    this.held = original.held
    this.windowRemaining = original.windowRemaining
    this.overflow = original.overflow
    if (original.end !== undefined) this.end = original.end
    if (original.isRemembered !== undefined) this.isRemembered = original.isRemembered
  }
}
