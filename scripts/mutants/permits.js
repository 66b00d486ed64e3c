// Mistakes in permits, in what requests use, and in how it is settled.

export const mutants = [
  {
    file: 'permit/usage.ts',
    what: 'a report replaces the one before it',
    from: 'Math.min((this.#reported ?? 0) + amount, unlimited)',
    to: 'Math.min(amount, unlimited)',
    test: 'test/rules/costs.test.ts',
    foundBy: ['a request counts the sum of its reports']
  },
  {
    file: 'permit/usage.ts',
    what: 'a report of less frees the rest while the request still runs',
    from: 'return this.#hasEnded ? used : Math.max(this.#granted, used)',
    to: 'return this.#hasEnded || this.#reported !== null ? used : this.#granted',
    test: 'test/rules/costs.test.ts',
    foundBy: ['a request counts its cost while it runs, and then a report of less']
  },
  {
    file: 'permit/usage.ts',
    what: 'a report of 0 counts as none',
    from: 'const used = this.#reported ?? this.#assumed',
    to: 'const used = this.#reported || this.#assumed',
    test: 'test/rules/costs.test.ts',
    foundBy: ['a request counts a late report of 0 in place of unreported']
  },
  {
    file: 'permit/usage.ts',
    what: 'unreported is added to what was reported',
    from: 'this.#assumed = this.#readUnreported()\n    }',
    to: '}\n    this.#reported = (this.#reported ?? 0) + this.#readUnreported()',
    test: 'test/rules/costs.test.ts',
    foundBy: ['a request counts a report and not unreported']
  },
  {
    file: 'permit/request-permit.ts',
    what: 'a report takes a turn, although the permit is there',
    from: 'state?.permit ?? (await state?.pending)',
    to: 'await state?.pending',
    test: 'test/rules/costs.test.ts',
    foundBy: [
      'a report just before the response is sent is one before its end, with a store that ' +
        'answers at once'
    ]
  },
  {
    file: 'permit/usage.ts',
    what: 'the message of an end without a report says that there was one, if it comes meanwhile',
    from: '      reported,\n',
    to: '      reported: reported || this.#reported !== null,\n',
    test: 'test/rules/settlements.test.ts',
    foundBy: ['a report while the store settles the end is published with its own message']
  },
  {
    file: 'permit/usage.ts',
    what: 'without a report, a request counts the most of its range',
    from: 'if (unreported === undefined) return this.#granted',
    to: 'if (unreported === undefined) return this.#demand.most',
    test: 'test/rules/held-costs.test.ts',
    foundBy: ['a request of a range counts what it was granted if nothing is reported']
  },
  {
    file: 'permit/usage.ts',
    what: 'an unreported of 0 is what was granted',
    from: "if (typeof unreported === 'number') return unreported",
    to: "if (typeof unreported === 'number') return unreported || this.#granted",
    test: 'test/rules/costs.test.ts',
    foundBy: ['a request counts nothing if unreported is 0']
  },
  {
    file: 'permit/usage.ts',
    what: 'a request counts nothing where unreported fails',
    from: '{ quota: name })\n      return this.#granted',
    to: '{ quota: name })\n      return 0',
    test: 'test/rules/costs.test.ts',
    foundBy: ['a request counts its cost if unreported throws']
  },
  {
    file: 'permit/usage.ts',
    what: 'what was used beyond the grants is held',
    from: 'isEstimate: false,',
    to: 'isEstimate: true,',
    test: 'test/rules/held-costs.test.ts',
    foundBy: ['what is used beyond a grant counts as used, and is never held']
  },
  {
    file: 'permit/usage.ts',
    what: 'what was used beyond the grants needs room below the limit',
    from: 'limit: unlimited,',
    to: 'limit: this.#demand.limit,',
    test: 'test/rules/costs.test.ts',
    foundBy: [
      'an estimate keeps parallel requests within the limit, and a report is not bounded'
    ]
  },
  {
    file: 'permit/counted-parts.ts',
    what: 'the grants are lowered before what was used beyond them',
    from: '[this.#beyond, this.#grants]',
    to: '[this.#grants, this.#beyond]',
    test: 'test/rules/costs.test.ts',
    foundBy: ['a request counts less of what it added last, first']
  },
  {
    file: 'permit/counted-parts.ts',
    what: 'the first extension is lowered before the last',
    from: 'for (let part = parts.at(-1); part !== undefined; part = parts.at(-1)) {',
    to: 'for (let part = parts.at(0); part !== undefined; part = parts.at(0)) {',
    test: 'test/rules/extensions.test.ts',
    foundBy: [
      'an extension counts beside what is reported: in the next window, where the latest is ' +
        'settled with less first'
    ]
  },
  {
    file: 'permit/usage.ts',
    what: 'what is used up is held until the end',
    from: 'return this.#hasEnded || (this.#reported !== null && this.#reported >= this.#granted)',
    to: 'return this.#hasEnded',
    test: 'test/rules/held-costs.test.ts',
    foundBy: ['a grant is no longer held once as much is reported, while the request runs']
  },
  {
    file: 'permit/counted-parts.ts',
    what: 'a settlement that failed is asked for again',
    from: '    this.#holding.clear()\n',
    to: '',
    test: 'test/rules/costs.test.ts',
    foundBy: [
      'a store that fails to count what was used is an error in the log and published, and is ' +
        'not asked again: settle'
    ]
  },
  {
    file: 'permit/usage.ts',
    what: 'what is granted while a report is being counted is lowered at once',
    from: '      due = this.#due\n    }\n',
    to: '    }\n',
    test: 'test/rules/extensions.test.ts',
    foundBy: ['an extension that is granted while a report is being counted stays held']
  },
  {
    file: 'permit/usage.ts',
    what: 'a settlement is published although nothing has changed',
    from: '    if (used === this.#published) return\n',
    to: '',
    test: 'test/rules/settlements.test.ts',
    foundBy: ['a message is published when a permit is settled, and when a report changes it']
  },
  {
    file: 'permit/usage.ts',
    what: 'a late message does not say what the earlier one did',
    from: 'const before = this.#published ?? 0',
    to: 'const before = this.#published === null ? 0 : this.#granted',
    test: 'test/rules/settlements.test.ts',
    foundBy: ['a message is published when a permit is settled, and when a report changes it']
  },
  {
    file: 'permit/usage.ts',
    what: 'windowEnd is that of the settlement',
    from: 'windowEnd: this.#windowEnd,',
    to: 'windowEnd: Math.round(wallClock() + (this.#quota.window ?? 0)),',
    test: 'test/rules/settlements.test.ts',
    foundBy: ['windowEnd is the end of the window that counted the admission']
  },
  {
    file: 'permit/usage.ts',
    what: 'changes of one permit are applied at the same time',
    from: 'this.#applying = this.#applying.then(() => this.#applyDue())',
    to: 'this.#applying = this.#applyDue()',
    test: 'test/rules/settlements.test.ts',
    foundBy: ['reports of one request are settled one after another']
  },
  {
    file: 'permit/counted-parts.ts',
    what: 'acquisitions beyond the grants are kept without end',
    from: '    if (this.#beyond.length > mostBeyond) this.#beyond.shift()\n',
    to: '',
    test: 'test/rules/costs.test.ts',
    foundBy: [
      'a permit that reports 10,000 times beyond its grant keeps a bounded number of ' +
        'acquisitions, and counts exactly what was reported, also after an extension'
    ]
  },
  {
    file: 'permit/permit.ts',
    what: 'quotaGranted is the most of several quotas',
    from: 'Math.min(least, granted)',
    to: 'Math.max(least, granted)',
    test: 'test/rules/held-costs.test.ts',
    foundBy: ['quotaGranted is the least of the enforced quotas that count the unit']
  },
  {
    file: 'permit/permit.ts',
    what: 'quotaGranted is that of the admission after an extension',
    from: 'usage === null ? acquisition.granted : usage.granted',
    to: 'acquisition.granted',
    test: 'test/rules/held-costs.test.ts',
    foundBy: ['quotaGranted contains what extensions were granted, whatever is reported']
  },
  {
    file: 'permit/permit.ts',
    what: 'a report of one unit counts in the quotas of all',
    from: 'if (quota.unit === unit && usage !== null)',
    to: 'if (usage !== null)',
    test: 'test/rules/costs.test.ts',
    foundBy: ['a request counts nothing of a report in another unit']
  },
  {
    file: 'permit/permit.ts',
    what: 'a place that was freed is freed again',
    from: '    this.#settled ??= this.#settleEach((each) =>\n',
    to: '    this.#settled = this.#settleEach((each) =>\n',
    test: 'test/rules/permits.test.ts',
    foundBy: ['a permit that is ended twice frees its place once']
  },
  {
    file: 'permit/permit.ts',
    what: 'the requests of a permit that is cancelled stay counted',
    from: "      if (each.quota.unit === 'requests') return this.#takeBack(each)\n",
    to: '',
    test: 'test/rules/responded.test.ts',
    foundBy: [
      'what a request has counted that a hook has answered while the store is asked is settled ' +
        'with 0, requests too'
    ]
  },
  {
    file: 'permit/extend.ts',
    what: 'the limit of an extension is the one that is configured',
    from: '    extension.limit = limit\n',
    to: "    extension.limit = typeof quota.configured === 'number' ? quota.configured : limit\n",
    test: 'test/rules/extensions.test.ts',
    foundBy: [
      'an extension above the limit never has room, and the limit is that of the admission'
    ]
  },
  {
    file: 'permit/extend.ts',
    what: 'an extension is granted although the permit has ended meanwhile',
    from: '  if (hasEndedMeanwhile) throw endedError(permit)\n',
    to: '',
    test: 'test/rules/extensions.test.ts',
    foundBy: [
      'an extension whose permit ends meanwhile rejects, and what it took is settled with 0'
    ]
  },
  {
    file: 'permit/extend.ts',
    what: 'a permit without anything to settle can be extended after the response',
    from: 'return request !== null && knownStateOf(request)?.hasResponseEnded(request) === true',
    to: 'return false',
    test: 'test/rules/extensions.test.ts',
    foundBy: ['a permit without anything to settle ends with the response, too']
  },
  {
    file: 'permit/decide.ts',
    what: 'a caller whose window is full of what others have used waits a second',
    from: 'hasRoom(count - held, demand)',
    to: 'held > 0',
    test: 'test/rules/held-costs.test.ts',
    foundBy: ['a request that is rejected only because of what others hold waits for a second']
  },
  {
    file: 'permit/decide.ts',
    what: 'the shortest wait of several rejections decides',
    from: 'wait > longestWait)',
    to: 'wait < longestWait)',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: [
      'the response to a request that several quotas refuse: of two windows, the one with the ' +
        'longest wait'
    ]
  },
  {
    file: 'permit/decide.ts',
    what: 'of equal rejections, the last one decides',
    from: 'wait > longestWait)',
    to: 'wait >= longestWait)',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: ['the response to a request that several quotas refuse: of equals, the first']
  },
  {
    file: 'permit/decide.ts',
    what: 'Retry-After is rounded down',
    from: 'Math.ceil(milliseconds / 1000)',
    to: 'Math.floor(milliseconds / 1000)',
    test: 'test/rules/refusal.test.ts',
    foundBy: [
      'Retry-After is the time until the window ends, in seconds, rounded up and at least 1'
    ]
  },
  {
    file: 'permit/decide.ts',
    what: 'a failed store comes before a rejection',
    from: "reason === 'store' ? 0 : 3",
    to: '3',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: [
      'the response to a request that several quotas refuse: a rejection comes before a failed ' +
        'store'
    ]
  },
  {
    file: 'permit/ask.ts',
    what: 'a shadow quota is asked although an enforced one rejects',
    from: 'return isRefused ? undefined : askShadows(quotas, requester)',
    to: 'return askShadows(quotas, requester)',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: [
      'a shadow quota is asked after the enforced ones have admitted, on its own, and refuses ' +
        'nothing'
    ]
  },
  {
    file: 'permit/prepare.ts',
    what: 'the cost is determined before the caller is known',
    from: '    return then(known ?? requester.callerOf(quota.callers), (caller) =>\n',
    to:
      "    if (typeof quota.cost === 'function') costIn(quota.cost, quota, requester)\n" +
      '    return then(known ?? requester.callerOf(quota.callers), (caller) =>\n',
    test: 'test/rules/costs.test.ts',
    foundBy: ['the cost of a request without a caller is not determined']
  },
  {
    file: 'permit/response-end.ts',
    what: 'over HTTP/2, only the close of a stream ends its request',
    from: "stream?.on('end', () => {",
    to: "stream?.on('close', () => {",
    test: 'test/rules/concurrent.test.ts',
    foundBy: [
      'an HTTP/2 stream that the client resets while its response waits to be sent frees its place'
    ]
  },
  {
    file: 'permit/response-end.ts',
    what: 'over HTTP/2, a place is free when the request has been read',
    from: '    if (stream.closed) end()\n',
    to: '    end()\n',
    test: 'test/rules/concurrent.test.ts',
    foundBy: [
      'over HTTP/2, a place is held while the handler reads the body itself, until the response ' +
        'ends'
    ]
  },
  {
    file: 'permit/response-end.ts',
    what: 'what waits behind another response does not end with the connection',
    from: '    for (const end of [...waiting]) end()\n',
    to: '    waiting.length = 0\n',
    test: 'test/rules/concurrent.test.ts',
    foundBy: [
      'pipelined requests free their places and are charged if the connection ends before their ' +
        'turn'
    ]
  },
  {
    file: 'permit/closing.ts',
    what: 'a permit that is decided on while the server closes is never settled',
    from: 'if (this.#isClosing) this.waitFor(permit.end())\n    else permit.position',
    to: 'permit.position',
    test: 'test/rules/permits.test.ts',
    foundBy: [
      'a permit without a request that is decided while the server closes is settled'
    ]
  },
  {
    file: 'permit/standing.ts',
    what: 'what is left of a limit can be negative',
    from: 'Math.max(0, limit - count)',
    to: 'limit - count',
    test: 'test/plugin/standing.test.ts',
    foundBy: ['remaining is never negative, and null if the limit is 0']
  },
  {
    file: 'permit/forget.ts',
    what: 'a store that fails keeps the others from forgetting the caller',
    from: 'for (const result of await Promise.allSettled(forgotten)) {\n' +
      "      if (result.status === 'rejected') throw result.reason\n    }",
    to: 'await Promise.all(forgotten)',
    test: 'test/plugin/standing.test.ts',
    foundBy: [
      'quotaForget rejects if a store fails or has no forget, after the others have forgotten ' +
        'the caller'
    ]
  },
  {
    file: 'permit/closing.ts',
    what: 'a permit that takes the position of another keeps its own',
    from: '    last.position = position\n',
    to: '',
    test: 'test/plugin/closing.test.ts',
    foundBy: ['the permits that are open are settled, whichever have ended before: fastify']
  },
  {
    file: 'permit/permit.ts',
    what: 'a server that closes does not wait for reports',
    from: '    closing.waitFor(reported)\n',
    to: '',
    test: 'test/plugin/closing.test.ts',
    foundBy: [
      'a report after the end of its permit is counted before the server has closed: fastify'
    ]
  },
  {
    file: 'permit/usage.ts',
    what: 'unreported is ignored if there is no request, also if it is a number',
    from: "if (typeof unreported === 'number') return unreported",
    to:
      "if (typeof unreported === 'number' && this.#requester.request !== null) return unreported",
    test: 'test/rules/permits.test.ts',
    foundBy: [
      'the permit of an authentication counts unreported in the end, but what it was granted if ' +
        'that is a function of the request'
    ]
  },
  {
    file: 'permit/used-tokens.ts',
    what: 'of several names, the first one counts that is there, number or not',
    from: '    if (isNatural(count)) return count',
    to: '    if (value !== undefined) return isNatural(count) ? count : undefined',
    test: 'test/rules/used-tokens.test.ts',
    foundBy: [
      'usedTokens reads 42 tokens: the names of two APIs, of which those of one hold no numbers'
    ]
  },
  {
    file: 'permit/closing.ts',
    what: 'what rejects while a server could wait for it is unhandled',
    from: 'promise.then(settled, settled)',
    to: 'promise.finally(settled)',
    test: 'test/rules/extensions.test.ts',
    foundBy: ['an extension rejects for its caller alone: nothing is unhandled']
  },
  {
    file: 'permit/standing.ts',
    what: 'the end of the day hides that of the open window',
    from: 'if (windowRemaining === null) return end',
    to: 'if (end !== null || windowRemaining === null) return end',
    test: 'test/rules/time-zones.test.ts',
    foundBy: [
      'resetsAt is the end of the open window if the day of another time zone ends before it'
    ]
  },
  {
    file: 'permit/forget.ts',
    what: 'a caller key in upper case is forgotten nowhere, without an error',
    from: '{64}$/',
    to: '{64}$/i',
    test: 'test/plugin/standing.test.ts',
    foundBy: ['quotaForget rejects anything but a caller key']
  },
  {
    file: 'permit/quota-list.ts',
    what: 'the quotas of a permit are in the order in which they are named',
    from: 'return this.all.filter((quota) => found.has(quota))',
    to: 'return [...found]',
    test: 'test/rules/permits.test.ts',
    foundBy: [
      'a permit has its quotas in their order, each once, whatever the order of the names'
    ]
  },
  {
    file: 'permit/given-costs.ts',
    what: 'one given cost stands for those of all functions',
    from: "typeof cost !== 'function' || given.has(name)",
    to: "typeof cost !== 'function' || given.size > 0",
    test: 'test/rules/permits.test.ts',
    foundBy: [
      'for an authentication, each cost that is a function must be given, and nothing is ' +
        'counted without one of them'
    ]
  },
  {
    file: 'permit/permit.ts',
    what: 'a place that the store fails to free is a concurrent request for ever',
    from:
      '    publishPlace(each, this.requester, -1)\n' +
      '    try {\n' +
      '      await quota.store.settle?.(acquisition, 0)\n',
    to:
      '    try {\n' +
      '      await quota.store.settle?.(acquisition, 0)\n' +
      '      publishPlace(each, this.requester, -1)\n',
    test: 'test/plugin/metrics.test.ts',
    foundBy: ['a request whose place the store fails to free is no concurrent request']
  },
  {
    file: 'permit/usage.ts',
    what: 'windowEnd is that of the latest extension',
    from: '    this.#parts.addGrant(acquisition)\n',
    to: '    this.#parts.addGrant(acquisition)\n    this.#windowEnd = windowEndOf(acquisition)\n',
    test: 'test/rules/settlements.test.ts',
    foundBy: ['windowEnd is the end of the window that counted the admission']
  },
  {
    file: 'permit/usage.ts',
    what: 'what is used beyond the grant counts in the day of the admission',
    from: '      return windowNow(this.caller)\n',
    to: '      windowNow(this.caller)\n      return this.#demand\n',
    test: 'test/rules/time-zones.test.ts',
    foundBy: [
      'what is used beyond the estimate counts in the day that it is reported in, and opens ' +
        'it'
    ]
  },
  {
    file: 'permit/prepare.ts',
    what: 'a promise in place of a cost that rejects ends the process',
    from: '    ignoreRejection(cost)\n',
    to: '',
    test: 'test/rules/costs.test.ts',
    foundBy: [
      'a promise in place of a cost or an amount is refused like others: if it rejects, it ' +
        'is handled'
    ]
  },
  {
    file: 'permit/standing.ts',
    what: 'the end of a day is unknown until a request opens its window',
    from: 'if (windowRemaining === null) return end',
    to: 'if (windowRemaining === null) return null',
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['resetsAt is when the day or month ends, also before a request opens it']
  },
  {
    file: 'permit/take-permit.ts',
    what: 'closing does not wait for a decision that is being made',
    from: '  if (permit instanceof Promise) requester.server.closing.waitFor(permit)\n',
    to: '',
    test: 'test/plugin/closing.test.ts',
    foundBy: ['a decision that closing waits for is settled before onClose: fastify']
  },
  {
    file: 'permit/closing.ts',
    what: 'closing waits only for what has begun, and not for what a decision has led to',
    from: 'keep the server from closing.\n    await this.#settled()\n',
    to: 'keep the server from closing.\n',
    test: 'test/plugin/closing.test.ts',
    foundBy: ['a decision that closing waits for is settled before onClose: fastify']
  },
  {
    file: 'permit/extend.ts',
    what: 'closing does not wait for an extension',
    from: '  permit.requester.server.closing.waitFor(extending)\n',
    to: '',
    test: 'test/plugin/closing.test.ts',
    foundBy: ['an extension that closing waits for is settled with 0 before onClose: fastify']
  },
  {
    file: 'permit/extend.ts',
    what: 'closing does not wait until what an extension has taken is taken back',
    from: 'closing.waitFor(takeBack(quota.store, acquisition, requester))',
    to: 'takeBack(quota.store, acquisition, requester)',
    test: 'test/plugin/closing.test.ts',
    foundBy: ['an extension that closing waits for is settled with 0 before onClose: fastify']
  },
  {
    file: 'permit/decide.ts',
    what: 'the time left of a day that ends while the store is asked is negative',
    from: "Math.max(1, Math.max(end, required(demand.end, 'the end of a window')) - wallClock())",
    to: "Math.max(end, required(demand.end, 'the end of a window')) - wallClock()",
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['windowRemaining is at least 1, even if a day ends while a store is asked']
  },
  {
    file: 'permit/extend.ts',
    what: 'the refusal of an extension is not published',
    from: '    publishDecisions([refusal], requester)\n',
    to: '',
    test: 'test/rules/extensions.test.ts',
    foundBy: ['an extension that is refused resolves with the decision, which is published']
  },
  {
    file: 'permit/prepare.ts',
    what: 'the decision without a caller has no limit',
    from:
      '    each.limit = limit\n' +
      '    if (limit === 0) {\n' +
      '      return each.decideWithout({ outcome: \'disabled\', reason: null, ' +
      'callerKey: null })\n' +
      '    }\n' +
      '    return then(known ?? requester.callerOf(quota.callers), (caller) =>\n' +
      '      caller instanceof Unidentified\n' +
      '        ? each.decideWithout(withoutCaller(caller))\n' +
      '        : prepareCost(each, caller, requester, costs)\n' +
      '    )\n',
    to:
      '    if (limit === 0) {\n' +
      '      return each.decideWithout({ outcome: \'disabled\', reason: null, ' +
      'callerKey: null })\n' +
      '    }\n' +
      '    return then(known ?? requester.callerOf(quota.callers), (caller) => {\n' +
      '      if (caller instanceof Unidentified) ' +
      'return each.decideWithout(withoutCaller(caller))\n' +
      '      each.limit = limit\n' +
      '      return prepareCost(each, caller, requester, costs)\n' +
      '    })\n',
    test: 'test/plugin/decisions.test.ts',
    foundBy: ['a decision contains the limit, with or without a caller']
  },
  {
    file: 'permit/decide.ts',
    what: 'the decision of a store that fails has no caller key',
    from:
      '      const { callerKey } = each.demand\n' +
      '      each.decideWithout({ outcome: \'unavailable\', reason: \'store\', callerKey })\n',
    to:
      '      each.decideWithout({ outcome: \'unavailable\', reason: \'store\', ' +
      'callerKey: null })\n',
    test: 'test/plugin/decisions.test.ts',
    foundBy: ['an unavailable decision has the caller\'s key if the caller is known']
  },
  {
    file: 'permit/take-permit.ts',
    what: 'a refused request has the decisions of all quotas that refuse it',
    from:
      '  for (const { decision } of quotas) {\n' +
      '    if (decision !== null && (refusal === null || decision === refusal)) ' +
      'decisions.push(decision)\n',
    to:
      '  for (const { decision, refuses } of quotas) {\n' +
      '    if (decision !== null && (refusal === null || refuses)) decisions.push(decision)\n',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: ['a request that several quotas refuse has the decision of one alone']
  },
  {
    file: 'handler-permit.ts',
    what: 'end does not wait for the store',
    from: '    return this.#permit.end()\n',
    to: '    this.#permit.end()\n',
    test: 'test/rules/permits.test.ts',
    foundBy: ['end resolves when the store has settled, and await using waits for it']
  },
  {
    file: 'permit/standing.ts',
    what: 'resetsAt can be a fraction',
    from: 'return Math.round(wallClock() + windowRemaining)',
    to: 'return wallClock() + windowRemaining',
    test: 'test/plugin/standing.test.ts',
    foundBy: ['resetsAt is a whole number of milliseconds, whatever the clock of the store']
  }
]
