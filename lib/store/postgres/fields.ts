// Reads the JSON that a function of schema.sql has returned. An error names whatever it lacks.

/** Reads an object of JSON. */
export class Fields {
  readonly #values: object

  constructor (value: unknown) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw new TypeError('the reply of PostgreSQL is not an object')
    }
    this.#values = value
  }

  number (name: string): number {
    return asNumber(this.#value(name), name)
  }

  numberOrNull (name: string): number | null {
    return this.#value(name) === null ? null : this.number(name)
  }

  boolean (name: string): boolean {
    const value = this.#value(name)
    if (typeof value !== 'boolean') throw lacks(name)
    return value
  }

  text (name: string): string {
    const value = this.#value(name)
    if (typeof value !== 'string') throw lacks(name)
    return value
  }

  textOrNull (name: string): string | null {
    return this.#value(name) === null ? null : this.text(name)
  }

  list (name: string): List {
    return new List(this.#value(name), name)
  }

  #value (name: string): unknown {
    return Object.hasOwn(this.#values, name) ? Reflect.get(this.#values, name) : undefined
  }
}

/** Reads an array of JSON. */
class List {
  readonly #values: readonly unknown[]
  readonly #name: string
  #position = 0

  constructor (value: unknown, name: string) {
    if (!Array.isArray(value)) throw lacks(name)
    this.#values = value
    this.#name = name
  }

  /** Returns the fields of the next value. */
  nextFields (): Fields {
    const value = this.#values[this.#position]
    this.#position += 1
    return new Fields(value)
  }

  /** Returns the fields of the next value, or null if it is null. */
  nextFieldsOrNull (): Fields | null {
    if (this.#values[this.#position] !== null) return this.nextFields()
    this.#position += 1
    return null
  }

  allBooleans (): boolean[] {
    return this.#values.map((value) => {
      if (typeof value !== 'boolean') throw lacks(this.#name)
      return value
    })
  }

  allFields (): Fields[] {
    return this.#values.map((value) => new Fields(value))
  }
}

export function readFields (text: string | null): Fields {
  if (text === null) throw new TypeError('the reply of PostgreSQL is empty')
  return new Fields(JSON.parse(text))
}

function asNumber (value: unknown, name: string): number {
  if (typeof value !== 'number') throw lacks(name)
  return value
}

function lacks (name: string): TypeError {
  return new TypeError(`the reply of PostgreSQL lacks ${name}`)
}
