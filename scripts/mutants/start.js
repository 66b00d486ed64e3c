// Mistakes at start-up, in the log and in the metrics.

export const mutants = [
  {
    file: 'start/host.ts',
    what: 'a second registration in a parent is none',
    from: 'isWithin(scope, fastify) || isWithin(fastify, scope)',
    to: 'isWithin(scope, fastify)',
    test: 'test/plugin/registering.test.ts',
    foundBy: ['a second registration that the same requests would pass through fails']
  },
  {
    file: 'plugin.ts',
    what: 'a registration that fails is remembered',
    from:
      '  // Everything that can fail comes first, so that a registration that failed leaves ' +
      'nothing behind.\n',
    to: '  registrations.add(fastify)\n',
    test: 'test/plugin/registering.test.ts',
    foundBy: [
      'a registration that failed on an environment variable has left nothing behind, so the ' +
        'host can register again'
    ]
  },
  {
    file: 'plugin.ts',
    what: 'a mark that names no quota is found by the first request',
    from: "if (mark !== undefined && typeof mark !== 'function') {",
    to: "if (mark !== undefined && typeof mark !== 'function' && Array.isArray(mark)) {",
    test: 'test/rules/marked-routes.test.ts',
    foundBy: ['start-up fails if a mark names a quota that does not exist']
  },
  {
    file: 'plugin.ts',
    what: 'changes of stores are logged after the server has closed',
    from: '    stopLogging()\n',
    to: '    void stopLogging\n',
    test: 'test/stores/insured-store-log.test.ts',
    foundBy: ['a server logs the changes of its own store, until it has closed']
  },
  {
    file: 'start/store-changes.ts',
    what: 'each scope of a server logs the changes of a store that they share',
    from: 'stores.filter((store) => !known.includes(store))',
    to: 'stores',
    test: 'test/stores/insured-store-log.test.ts',
    foundBy: [
      'each change of a shard is logged once, with the shards of the fallback, and the error'
    ]
  },
  {
    file: 'start/store-changes.ts',
    what: 'a shard that works again is logged as a failure of all',
    from: 'if (primary.length === 0) {',
    to: 'if (fallback.length > 0) {',
    test: 'test/stores/insured-store-log.test.ts',
    foundBy: [
      'each change of a shard is logged once, with the shards of the fallback, and the error'
    ]
  },
  {
    file: 'start/quotas.ts',
    what: 'a store without settle is accepted for tokens',
    from: "if (unit === 'requests' && !areSeveral) continue",
    to: 'if (!areSeveral) continue',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: ['start-up fails if a store lacks a function that one of its quotas needs']
  },
  {
    file: 'start/quotas.ts',
    what: 'a method in lower case protects nothing',
    from: 'method: method.toUpperCase()',
    to: 'method',
    test: 'test/plugin/start-up.test.ts',
    foundBy: ['one info line lists what each quota protects, with its limit']
  },
  {
    file: 'start/quotas.ts',
    what: 'the mode of a definition does not precede that of the plugin',
    from: '(definition.mode ?? options.mode)',
    to: '(options.mode ?? definition.mode)',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: ['a quota has the mode of the plugin, enforce, unless it has its own']
  },
  {
    file: 'start/quotas.ts',
    what: 'a quota of a plugin in shadow mode is not enforced, whatever its own mode',
    from: "(definition.mode ?? options.mode) !== 'shadow'",
    to: "definition.mode !== 'shadow' && options.mode !== 'shadow'",
    test: 'test/rules/several-quotas.test.ts',
    foundBy: ['a quota has the mode of the plugin, shadow, unless it has its own']
  },
  {
    file: 'start/quotas.ts',
    what: 'the store of a definition does not precede that of the plugin',
    from: 'store: definition.store ?? store',
    to: 'store',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: ['a quota counts in the store of the plugin, unless it has its own']
  },
  {
    file: 'start/quotas.ts',
    what: 'an unused default quota that a route is marked with is not listed',
    from: 'described.unshift(describeQuota(quota))',
    to: 'described.slice().unshift(describeQuota(quota))',
    test: 'test/plugin/start-up.test.ts',
    foundBy: ['fastify.quotas has the default quota, first, if anything can use it']
  },
  {
    file: 'start/definition-checks.ts',
    what: 'a quota with two limits is accepted',
    from: 'if (names.length > 1)',
    to: 'if (names.length > 2)',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: [
      'start-up fails if the definition of a quota is not possible, and says why'
    ]
  },
  {
    file: 'start/definition-checks.ts',
    what: 'a time zone beside a window of an hour is ignored',
    from: 'if (timeZone !== undefined && !isCalendarPeriod',
    to: "if (typeof timeZone === 'function' && !isCalendarPeriod",
    test: 'test/rules/several-quotas.test.ts',
    foundBy: [
      'start-up fails if the definition of a quota is not possible, and says why'
    ]
  },
  {
    file: 'start/plugin-checks.ts',
    what: 'a time limit of the preference reader can be a fraction',
    from: '  assertInteger(value, option)\n  assertMilliseconds',
    to: '  assertMilliseconds',
    test: 'test/plugin/registering.test.ts',
    foundBy: ['start-up fails with an error that contains the option and its value']
  },
  {
    file: 'start/routes.ts',
    what: 'the HEAD twin of a GET operation that was declared before is not known',
    from: "      if (method === 'GET') this.#addBefore('HEAD', path)\n",
    to: '',
    test: 'test/plugin/start-up.test.ts',
    foundBy: ['the warnings name the HEAD route of a protected GET operation, before the plugin']
  },
  {
    file: 'start/routes.ts',
    what: 'an operation that two quotas list is known twice',
    from: 'if (isDeclared && !isKnown)',
    to: 'if (isDeclared)',
    test: 'test/plugin/start-up.test.ts',
    foundBy: [
      'the warnings name the HEAD route of an operation of two quotas, before the plugin, once'
    ]
  },
  {
    file: 'start/head-routes.ts',
    what: 'a HEAD route of its own that shares the handler is not known',
    from: '(isExposed || head.options.handler === handler)',
    to: 'isExposed',
    test: 'test/plugin/start-up.test.ts',
    foundBy: ['the warnings name a HEAD route that is declared together with its GET route']
  },
  {
    file: 'start/report.ts',
    what: 'a quota in shadow mode is said to protect',
    from: "isEnforced ? 'protects' : 'observes'",
    to: "isEnforced || configured !== 0 ? 'protects' : 'observes'",
    test: 'test/plugin/start-up.test.ts',
    foundBy: ['one info line lists what each quota protects, with its limit']
  },
  {
    file: 'start/report.ts',
    what: 'the location of the counters is that of the fallback',
    from: 'store instanceof InsuredQuotaStore ? store.primary : store',
    to: 'store',
    test: 'test/plugin/start-up.test.ts',
    foundBy: ['the info line tells where a shared store keeps the counters']
  },
  {
    file: 'start/report.ts',
    what: 'a HEAD route is warned of for its preHandler, too',
    from: "if (hooks.length === 0 || method === 'HEAD') return",
    to: 'if (hooks.length === 0) return',
    test: 'test/plugin/start-up.test.ts',
    foundBy: [
      'the warnings name each protected route with its own preHandler, which runs after the quota'
    ]
  },
  {
    file: 'permit/quota-log.ts',
    what: 'what a quota in shadow mode would reject is logged at the level info',
    from: "logLine(log, 'debug', properties,",
    to: "logLine(log, enforced ? 'debug' : 'info', properties,",
    test: 'test/plugin/decisions.test.ts',
    foundBy: [
      'a refusal in the mode shadow is logged at debug with its decision and a short caller key'
    ]
  },
  {
    file: 'permit/quota-log.ts',
    what: 'the whole caller key is logged',
    from: 'decision.callerKey?.slice(0, 8)',
    to: 'decision.callerKey',
    test: 'test/plugin/decisions.test.ts',
    foundBy: [
      'a refusal in the mode enforce is logged at debug with its decision and a short caller key'
    ]
  },
  {
    file: 'permit/quota-log.ts',
    what: 'the overflow counter of a second quota is not warned of',
    from: '`overflow $',
    to: 'void quota, `overflow` || `$',
    test: 'test/plugin/decisions.test.ts',
    foundBy: ['the overflow counter of each quota is warned of once']
  },
  {
    file: 'permit/quota-log.ts',
    what: 'a mistake in the host is warned of again in each quota',
    from: 'String(reason)',
    to: '[reason, quota].join()',
    test: 'test/rules/caller.test.ts',
    foundBy: ['a mistake in the host is warned of once for each reason, in whichever quota']
  },
  {
    file: 'permit/quota-log.ts',
    what: 'a request without credentials is warned of',
    from: "if (reason === 'no-authentication' && !hasCredentials(request)) return",
    to: "if (reason === 'no-authentication' && request === null) return",
    test: 'test/plugin/decisions.test.ts',
    foundBy: [
      'a request with credentials that nobody has verified causes one warning, and one without ' +
        'credentials none'
    ]
  },
  {
    file: 'permit/quota-log.ts',
    what: 'a warning that is repeated is due a minute after the first time only',
    from: '    this.#warnedAt.set(mistake, now)\n',
    to: '    if (!this.#warnedAt.has(mistake)) this.#warnedAt.set(mistake, now)\n',
    test: 'test/rules/costs.test.ts',
    foundBy: ['a request that ends without a report is warned of, once a minute']
  },
  {
    file: 'permit/quota-log.ts',
    what: 'a cost above the limit of one quota keeps that of another from the log',
    from: '`cost $',
    to: '`cost` || `$',
    test: 'test/rules/costs.test.ts',
    foundBy: ['a cost above the limit is warned of for each quota']
  },
  {
    file: 'log.ts',
    what: 'an error is logged with all that a client attached to it',
    from: 'err: loggableError(error), ...properties',
    to: 'err: error, ...properties',
    test: 'test/regressions/secrets.test.ts',
    foundBy: ['an error of the store is logged with its name, code and message only']
  },
  {
    file: 'log.ts',
    what: 'what a logger throws reaches the request',
    from: '    try {\n      log[level](message)\n    } catch {}\n',
    to: '    log[level](message)\n',
    test: 'test/regressions/asynchronous-decisions.test.ts',
    foundBy: ['a logger that throws changes no response and ends no process']
  },
  {
    file: 'permit/given-costs.ts',
    what: 'one cost for two quotas is that of the first',
    from: 'if (quotas.length > 1) {',
    to: 'if (quotas.length > 2) {',
    test: 'test/rules/permits.test.ts',
    foundBy: [
      'the promise rejects for names and costs that are not possible, and nothing is counted'
    ]
  },
  {
    file: 'permit/given-costs.ts',
    what: 'a cost is accepted for a quota of concurrent requests',
    from: 'if (quota.longestWindow === null) {',
    to: 'if (quota.longestWindow === null && range === null) {',
    test: 'test/rules/permits.test.ts',
    foundBy: [
      'the promise rejects for names and costs that are not possible, and nothing is counted'
    ]
  },
  {
    file: 'permit/given-costs.ts',
    what: 'a permit for an authentication counts nothing where the cost is a function',
    from: "if (typeof cost !== 'function' || given.has(name)) continue",
    to: "if (typeof cost !== 'function' || given.size === 0) continue",
    test: 'test/rules/permits.test.ts',
    foundBy: ['an authentication in place of a request is the caller of each of the quotas']
  },
  {
    file: 'handler-permit.ts',
    what: 'refuse sends a response beside that of the host',
    from: 'if (reply.sent || reply.raw.headersSent) {',
    to: 'if (reply.raw.headersSent) {',
    test: 'test/rules/permits.test.ts',
    foundBy: ['refuse throws if the host has hijacked the reply']
  },
  {
    file: 'start/quotas.ts',
    what: "the plugin's authentication precedes that of a quota",
    from: 'definition.authentication ?? options.authentication',
    to: 'options.authentication ?? definition.authentication',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: [
      "a quota's own authentication precedes the plugin's; quotas that share one ask for it once"
    ]
  },
  {
    file: 'metrics/recorder.ts',
    what: 'why a request has no caller is a label',
    from: "reason: outcome === 'unavailable' ? reason : ''",
    to: "reason: reason ?? ''",
    test: 'test/plugin/metrics.test.ts',
    foundBy: ['the label reason is empty unless something failed, also without a caller']
  },
  {
    file: 'metrics/recorder.ts',
    what: 'a cost that fails touches the limit',
    from: 'cost: { isOfDefinition: true }',
    to: 'cost: { isOfDefinition: false }',
    test: 'test/plugin/metrics.test.ts',
    foundBy: [
      'what is unavailable is counted with its reason, and a mark, a limit, a cost or a time ' +
        'zone that fails touches no limit'
    ]
  },
  {
    file: 'metrics/recorder.ts',
    what: 'what was used is counted again with each later report',
    from: 'const due = used - before - (',
    to: 'const due = used - (',
    test: 'test/plugin/metrics.test.ts',
    foundBy: [
      'a late report below what was assumed is subtracted from what is counted next, since a ' +
        'counter cannot decrease'
    ]
  },
  {
    file: 'metrics/recorder.ts',
    what: 'the excess of one unit is subtracted from another',
    from: ' $' + '{unit}`\n    // A late',
    to: '`\n    // A late',
    test: 'test/plugin/metrics.test.ts',
    foundBy: ['a late report of less in one unit is subtracted from no other']
  },
  {
    file: 'metrics/recorder.ts',
    what: 'a server that has closed is still counted',
    from: '      this.#servers.delete(server)\n',
    to: '',
    test: 'test/plugin/metrics.test.ts',
    foundBy: ['servers are counted in their own registry, or together in one, until they close']
  },
  {
    file: 'metrics/recorder.ts',
    what: 'what quotas have used has no initial value',
    from: '      this.#startUsed(recorded)\n',
    to: '      void recorded\n',
    test: 'test/plugin/metrics.test.ts',
    foundBy: [
      'what a quota has used is 0 before the first settlement, so that its rate is known from ' +
        'then on'
    ]
  },
  {
    file: 'metrics/store-metrics.ts',
    what: 'a number of a store that has become unknown stays',
    from: '        this.reset()\n        for (const { name: quota',
    to: '        for (const { name: quota',
    test: 'test/plugin/metrics.test.ts',
    foundBy: [
      'a store that fails or is invalid, insured or not, has no number of tracked callers; ' +
        'other metrics are not affected'
    ]
  },
  {
    file: 'metrics/store-metrics.ts',
    what: 'the share of the primary is that of the store that is best off',
    from: 'Math.min(...shares)',
    to: 'Math.max(...shares)',
    test: 'test/plugin/metrics.test.ts',
    foundBy: ['llm_quota_insured_primary is the least of several insured stores']
  },
  {
    file: 'permit/ask.ts',
    what: 'the duration of a store is in milliseconds',
    from: '(performance.now() - startedAt) / 1000',
    to: 'performance.now() - startedAt',
    test: 'test/plugin/metrics.test.ts',
    foundBy: [
      'each call of the store is timed: how long a decision waits for it, whatever its result'
    ]
  },
  {
    file: 'start/report.ts',
    what: 'the scope is doubted if one of several routes is declared before the plugin',
    from: 'found.every(isDeclaredBefore)',
    to: 'found.some(isDeclaredBefore)',
    test: 'test/plugin/start-up.test.ts',
    foundBy: [
      'the warnings name no route before the plugin beside one after it with the same pattern, ' +
        'which is in its scope'
    ]
  },
  {
    file: 'metrics/recorder.ts',
    what: 'the limit of a quota that is disabled is shown as before',
    from: "if (limit > 0 || outcome === 'disabled')",
    to: 'if (limit > 0)',
    test: 'test/plugin/metrics.test.ts',
    foundBy: [
      'llm_quota_limit is the limit of the latest decision, and 0 once the quota is disabled'
    ]
  },
  {
    file: 'metrics/recorder.ts',
    what: 'preferences that are unavailable are not counted',
    from: 'this.#failedPreferences.inc({ preference })',
    to: 'void preference',
    test: 'test/plugin/metrics.test.ts',
    foundBy: [
      'llm_quota_preference_failures_total counts how often a preference was unavailable, and ' +
        'has no series before'
    ]
  },
  {
    file: 'metrics/recorder.ts',
    what: 'a limit that an outage of the authentication hides is shown as 0',
    from: "limit > 0 || outcome === 'disabled'",
    to: "outcome !== 'unauthenticated'",
    test: 'test/plugin/metrics.test.ts',
    foundBy: [
      'a limit that is not determined for lack of a caller, or because the authentication ' +
        'fails, is not shown as 0'
    ]
  },
  {
    file: 'metrics/recorder.ts',
    what: 'the concurrent requests are those of the last server',
    from: 'this.inc({ quota, unit: placeUnit }, count)',
    to: 'this.set({ quota, unit: placeUnit }, count)',
    test: 'test/plugin/metrics.test.ts',
    foundBy: ['the concurrent requests of servers with the same registry are added up']
  },
  {
    file: 'start/quotas.ts',
    what: 'the store of a default quota that is not used is one of several',
    from: 'new Set(used.map(',
    to: 'new Set(quotas.map(',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: ['the store of a default quota that is not used is not one of several']
  },
  {
    file: 'metrics/store-metrics.ts',
    what: 'calls of an insured store are counted until the first collection only',
    from: 'counted.set(store, { ...decisions })',
    to: 'counted.set(store, decisions)',
    test: 'test/plugin/metrics.test.ts',
    foundBy: ['llm_quota_insured_decisions_total grows with each call, also after it was collected']
  },
  {
    file: 'metrics/store-metrics.ts',
    what: 'an insured store is looked at for a caller cap of its own',
    from: 'maxTrackedCallersOf(counting)',
    to: 'maxTrackedCallersOf(store)',
    test: 'test/plugin/metrics.test.ts',
    foundBy: [
      'of an insured store, the caller cap, the tracked callers and the sweeps are those of its ' +
        'primary, and the last two are absent while it fails'
    ]
  },
  {
    file: 'plugin.ts',
    what: 'a default quota that turns out to be used is not in the metrics',
    from: 'channels.quotas.add(described)',
    to: 'channels.quotas.add([...described])',
    test: 'test/plugin/metrics.test.ts',
    foundBy: ['a default quota of marked routes only has the metrics of its store']
  },
  {
    file: 'plugin.ts',
    what: 'of a route with several methods, only the first is known',
    from: 'for (const method of [declared.method].flat()) {',
    to: 'for (const method of [declared.method].flat().slice(0, 1)) {',
    test: 'test/plugin/start-up.test.ts',
    foundBy: ['the info line lists a route with each of its methods']
  },
  {
    file: 'start/quotas.ts',
    what: 'a cost of 0 requests is the default',
    from: 'cost ?? (isEstimated ? 0 : 1)',
    to: 'cost || (isEstimated ? 0 : 1)',
    test: 'test/rules/costs.test.ts',
    foundBy: ['a number as the cost of requests is what each counts, also 0']
  },
  {
    file: 'start/routes.ts',
    what: 'a default quota that only the function of a mark can name is not listed',
    from: 'return this.known.some((route) => mayBeMarkedWith(quota, route))',
    to: 'return this.known.some((route) => isMarkedWith(quota, route))',
    test: 'test/plugin/start-up.test.ts',
    foundBy: ['fastify.quotas has the default quota, first, if anything can use it']
  },
  {
    file: 'metrics/recorder.ts',
    what: 'the series of one mode keep those of the other from starting at 0',
    from: 'const key = JSON.stringify(labels)',
    to: 'const key = JSON.stringify({ ...labels, enforced: null })',
    test: 'test/plugin/metrics.test.ts',
    foundBy: ['each outcome and reason of an operation starts from 0, in each mode']
  },
  {
    file: 'errors.ts',
    what: 'an error contains URLs of other protocols than HTTP',
    from: 'value.includes(\'://\')',
    to: '/^https?:/.test(value)',
    test: 'test/plugin/registering.test.ts',
    foundBy: ['of what can hold a secret, the error of an option contains only the type']
  },
  {
    file: 'metrics/store-metrics.ts',
    what: 'of the quotas with the same name, the emptiest is shown',
    from: 'known.value >= value',
    to: 'known.value <= value',
    test: 'test/plugin/metrics.test.ts',
    foundBy: ['of the quotas of several servers with the same name, the fullest is shown']
  },
  {
    file: 'metrics/store-metrics.ts',
    what: 'a collection waits for five seconds',
    from: 'const longestInspection = 500',
    to: 'const longestInspection = 5000',
    test: 'test/plugin/metrics.test.ts',
    foundBy: ['a collection waits half a second at most for a store']
  },
  {
    file: 'start/store-changes.ts',
    what: 'of several scopes, the stores of the last are known',
    from: 'logged.set(server, [...known, ...added])',
    to: 'logged.set(server, added)',
    test: 'test/stores/insured-store-log.test.ts',
    foundBy: [
      'each change of a shard is logged once, with the shards of the fallback, and the error'
    ]
  },
  {
    file: 'start/definition-checks.ts',
    what: 'unreported can be negative',
    from: 'typeof value === \'function\' || isNatural(value)',
    to: 'typeof value === \'function\' || Number.isSafeInteger(value)',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: ['start-up fails if the definition of a quota is not possible, and says why']
  },
  {
    file: 'plugin.ts',
    what: 'only the changes of the store of the plugin itself are logged',
    from: '    settings.map(({ store }) => store)\n',
    to: '    [store]\n',
    test: 'test/stores/insured-store-log.test.ts',
    foundBy: ['the changes of a store that only a named quota has are logged, too']
  },
  {
    file: 'start/store-changes.ts',
    what: 'of the servers that share a store, only the first logs its changes',
    from:
      '  const known = logged.get(server) ?? []\n' +
      '  const added = stores.filter((store) => !known.includes(store))\n' +
      '  logged.set(server, [...known, ...added])\n',
    to:
      '  const known = logged.get(insuredStoreChanges) ?? []\n' +
      '  const added = stores.filter((store) => !known.includes(store))\n' +
      '  logged.set(insuredStoreChanges, [...known, ...added])\n',
    test: 'test/stores/insured-store-log.test.ts',
    foundBy: ['each of two servers that share a store logs its changes']
  },
  {
    file: 'permit/quota-log.ts',
    what: 'refusals are logged at the level debug of the logger alone',
    from: '!levelsAboveDebug.includes(log.level)',
    to: 'log.level === \'debug\'',
    test: 'test/plugin/decisions.test.ts',
    foundBy: ['refusals are logged if the logger writes lines of the level debug']
  },
  {
    file: 'plugin.ts',
    what: 'the option preferences: false is decorated',
    from: 'reader !== undefined && reader !== false && ',
    to: 'reader !== undefined && ',
    test: 'test/plugin/registering.test.ts',
    foundBy: ['the plugin adds the decorators of the contract only']
  },
  {
    file: 'plugin.ts',
    what: 'if a preClose hook throws, the permits of the first scope alone are settled',
    from: '    known.push(run)\n',
    to: '',
    test: 'test/plugin/closing.test.ts',
    foundBy: ['the permits of each scope are settled, also if a preClose hook throws: fastify']
  },
  {
    file: 'permit/quota-log.ts',
    what: 'the line of a refusal does not tell all of its decision',
    from: '    held,\n    retryAfter,\n',
    to: '',
    test: 'test/plugin/decisions.test.ts',
    foundBy: [
      'a refusal in the mode enforce is logged at debug with its decision and a short caller key'
    ]
  }
]
