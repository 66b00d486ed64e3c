/** A path to match, and the value to return for it. */
export interface PathEntry<Value> {
  /** The name of the option that contains the path, for error messages. */
  readonly option: string
  /** The application path. */
  readonly path: string
  readonly value: Value
}
