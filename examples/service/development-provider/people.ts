/** An invented user of the development provider. */
export interface Person {
  /** The subject, which never changes. */
  readonly sub: string
  readonly name: string
  /** The display name, which users can change at each sign-in. */
  preferredUsername: string
}

/** Returns the initial users of a development provider. */
export function madeUpPeople (): Person[] {
  return [
    { sub: '550e8400-e29b-41d4-a716-446655440000', name: 'Mira Lindqvist', preferredUsername: 'mira' },
    { sub: '6fa459ea-ee8a-4ca4-894e-db77e160355e', name: 'Tomás Okafor', preferredUsername: 'tomas' }
  ]
}
