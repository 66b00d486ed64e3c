// A value that a fault had left out passed for an empty object, or for 0.
import t from 'tap'
import { required } from '../../lib/required.js'

t.test('a value that must be there and is missing is an error that names it', async (t) => {
  for (const missing of [undefined, null]) {
    t.throws(() => required(missing, 'the caller'), new TypeError('the caller is missing'))
  }
  for (const there of [0, '', false]) t.equal(required(there, 'the caller'), there)
})
