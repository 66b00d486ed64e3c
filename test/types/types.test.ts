// The types of the built package, as the programs in this folder use them.
import { spawnSync } from 'node:child_process'
import t from 'tap'

t.test(
  'the programs in test/types compile, and each mistake in mistakes.mts is reported',
  async (t) => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['node_modules/typescript/bin/tsc', '-p', 'test/types'],
      { encoding: 'utf8' }
    )
    t.strictSame({ status, stdout, stderr }, { status: 0, stdout: '', stderr: '' })
  }
)
