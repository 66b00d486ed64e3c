/** A path to match, and the value to return for it. */
export interface PathEntry<Value> {
  /** The application path. */
  readonly path: string
  readonly value: Value
}
