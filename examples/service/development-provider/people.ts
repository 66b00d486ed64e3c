/** A made-up person whom the development provider knows. */
export interface Person {
  /** The subject, which stays the same whatever else changes. */
  readonly sub: string
  readonly name: string
  /** What people call themselves; they may change it whenever they sign in. */
  preferredUsername: string
}

/** The people who can sign in at a development provider that has just started. */
export function madeUpPeople (): Person[] {
  return [
    { sub: '550e8400-e29b-41d4-a716-446655440000', name: 'Mira Lindqvist', preferredUsername: 'mira' },
    { sub: '6fa459ea-ee8a-4ca4-894e-db77e160355e', name: 'Tomás Okafor', preferredUsername: 'tomas' }
  ]
}
