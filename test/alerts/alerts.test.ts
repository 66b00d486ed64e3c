// The alert rules in docs/alerts.yml and the queries in docs/dashboard.json, checked with promtool.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import t from 'tap'
import { plainEnvironment } from '../support/environment.js'

interface Panel {
  title: string
  description?: string
  fieldConfig?: { defaults: { noValue?: string } }
  targets?: { expr: string }[]
}

const folder = mkdtempSync(join(tmpdir(), 'quota-alerts-'))
t.teardown(() => {
  rmSync(folder, { recursive: true })
})

const rules = readFileSync('docs/alerts.yml', 'utf8')
const alertNames = [...rules.matchAll(/alert: (\w+)/g)].map(([, name = '']) => name)
function promtool (command: string, file: string, content: object): string {
  // JSON is valid YAML.
  writeFileSync(join(folder, file), JSON.stringify(content))
  const words = [...command.split(' '), join(folder, file)]
  return execFileSync('promtool', words, {
    encoding: 'utf8',
    env: plainEnvironment(),
    stdio: ['ignore', 'pipe', 'pipe']
  })
}

type Series = Record<string, string>

const decisions = (outcome: string, reason = ''): string =>
  `llm_quota_decisions_total{outcome="${outcome}",reason="${reason}",` +
  'quota="default",enforced="true"}'
const unavailable = decisions('unavailable', 'store')
const insured = (store: string): string => `llm_quota_insured_decisions_total{store="${store}"}`
const tracked = 'llm_quota_tracked_callers{quota="default"}'
const cap = 'llm_quota_max_tracked_callers{quota="default"}'

/**
 * For each alert, series with a value every 30 seconds with which it fires, and others, just beside
 * the threshold, with which it does not. In promtool's notation, `0+2x40` increases by 2 every
 * time.
 */
const cases: Record<string, { fires: Series; silent: Record<string, Series> }> = {
  QuotaStoreUnavailable: {
    fires: { [unavailable]: '0+1x40' },
    silent: {
      'a single request': { [unavailable]: '0x10 1x30' },
      'a mark of the host fails': { [decisions('unavailable', 'mark')]: '0+1x40' }
    }
  },
  QuotaOnFallback: {
    fires: { [insured('primary')]: '0+98x40', [insured('fallback')]: '0+2x40' },
    silent: {
      'half a percent': { [insured('primary')]: '0+199x40', [insured('fallback')]: '0+1x40' }
    }
  },
  QuotaStoreSlow: {
    fires: durations(80),
    silent: {
      'a twentieth is slow': durations(95),
      'a client waits for a server that is lost': { ...durations(80), [unavailable]: '0x33 1+1x6' }
    }
  },
  QuotaUnauthenticated: {
    fires: { [decisions('unauthenticated')]: '0+8x40', [decisions('admitted')]: '0+7x40' },
    silent: {
      'less than half': {
        [decisions('unauthenticated')]: '0+7x40',
        [decisions('admitted')]: '0+8x40'
      },
      'few requests': {
        [decisions('unauthenticated')]: '0+4x40',
        [decisions('admitted')]: '0+1x40'
      }
    }
  },
  QuotaCapNear: {
    fires: { [tracked]: '81x40', [cap]: '100x40' },
    silent: { '80 %': { [tracked]: '80x40', [cap]: '100x40' } }
  },
  QuotaOverflow: counting('llm_quota_overflow_decisions_total{quota="default"}'),
  QuotaPreferencesUnavailable: counting(
    'llm_quota_preference_failures_total{preference="rate-limit.per-minute"}'
  ),
  QuotaSettlementsLost: counting('llm_quota_failed_settlements_total{quota="tokens"}')
}

/** An alert that fires while the counter increases, and not once it has stopped. */
function counting (series: string): { fires: Series; silent: Record<string, Series> } {
  return {
    fires: { [series]: '0+1x40' },
    silent: { 'no more since': { [series]: '0+1x10 10x30' } }
  }
}

/** Of 100 decisions, so many take less than 50 ms, and the others less than 100 ms. */
function durations (fast: number): Series {
  const bucket = (bound: string, count: number): Series => ({
    [`llm_quota_store_duration_seconds_bucket{le="${bound}"}`]: `0+${count}x40`
  })
  return {
    ...bucket('0.025', fast - 5),
    ...bucket('0.05', fast),
    ...bucket('0.1', 100),
    ...bucket('+Inf', 100)
  }
}

/**
 * Throws with promtool's explanation unless exactly these alerts fire after 19 minutes, and none
 * after two.
 */
function assertFiring (series: Series, alerts: readonly string[]): void {
  const firing = (time: string, names: readonly string[]) => ({
    expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
    eval_time: time,
    exp_samples: names.map((name) => ({ labels: `{alertname="${name}"}`, value: 1 }))
  })
  promtool('test rules', 'test.json', {
    rule_files: [resolve('docs/alerts.yml')],
    evaluation_interval: '30s',
    tests: [
      {
        interval: '30s',
        input_series: Object.entries(series).map(([name, values]) => ({
          series: name.replace('{', '{job="api",'),
          values
        })),
        promql_expr_test: [firing('2m', []), firing('19m', alerts)]
      }
    ]
  })
}

for (const [alert, { fires, silent }] of Object.entries(cases)) {
  t.test(`${alert} fires, and just beside its threshold it does not`, async (t) => {
    t.doesNotThrow(() => {
      assertFiring(fires, [alert])
    })
    for (const [name, series] of Object.entries(silent)) {
      t.doesNotThrow(() => {
        assertFiring(series, [])
      }, name)
    }
  })
}

t.test('each alert has its cases', async (t) => {
  t.same(Object.keys(cases), alertNames)
})

t.test('docs/operating.md explains each alert, and each metric', async (t) => {
  const operating = readFileSync('docs/operating.md', 'utf8')
  const metrics = new Set(rules.match(/llm_quota_\w+/g))
  const explained = [...alertNames, ...[...metrics].map((name) => name.replace(/_bucket$/, ''))]
  t.same(
    explained.filter((name) => !operating.includes(`\`${name}\``)),
    []
  )
})

t.test(
  'the dashboard queries metrics that operating.md lists, by job, and describes each panel',
  async (t) => {
    const panels: Panel[] = JSON.parse(readFileSync('docs/dashboard.json', 'utf8')).panels
    const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
    const variables: [string, string][] = [
      ['$job', 'api'],
      ['$__rate_interval', '1m']
    ]
    const plain = expressions.map((expr) =>
      variables.reduce((text, [name, value]) => text.replaceAll(name, value), expr)
    )
    const queries = plain.map((expr, index) => ({ record: `panel_${index}`, expr }))
    t.match(
      promtool('check rules', 'dashboard.json', {
        groups: [{ name: 'dashboard', rules: queries }]
      }),
      `SUCCESS: ${expressions.length} rules found`
    )
    for (const expr of expressions) {
      t.equal(expr.match(/job=~"\$job"/g)?.length, expr.match(/llm_quota_/g)?.length, expr)
    }
    const listed = [
      ...readFileSync('docs/operating.md', 'utf8').matchAll(/^\| `(llm_quota_\w+)` \|/gm)
    ].map(([, name]) => name)
    const shown = new Set(
      expressions
        .flatMap((expr) => expr.match(/llm_quota_\w+/g) ?? [])
        .map((name) => name.replace(/_bucket$/, ''))
    )
    t.same([...shown].sort(), [...new Set(listed)].sort(), 'every metric is shown')
    for (const { title, description = '' } of panels) {
      t.ok(description.length > 20, `${title}: ${description}`)
    }
    t.equal(
      panels.find(({ title }) => title === 'Insured store')?.fieldConfig?.defaults.noValue,
      'not insured'
    )
  }
)
