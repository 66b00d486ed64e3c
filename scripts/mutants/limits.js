// Mistakes in limits: how many, in which window, of which time zone, and who tells it.

export const mutants = [
  {
    file: 'limit/limit.ts',
    what: 'a negative limit disables the quota',
    from: 'return integer < 0 ? 1 : integer',
    to: 'return integer < 0 ? 0 : integer',
    test: 'test/rules/limit.test.ts',
    foundBy: ['of a preference, below 0, the limit is 1']
  },
  {
    file: 'limit/limit.ts',
    what: 'a limit of 0 is 1',
    from: 'return integer < 0 ? 1 : integer',
    to: 'return integer <= 0 ? 1 : integer',
    test: 'test/rules/limit.test.ts',
    foundBy: ['of a preference, 0 disables the quota']
  },
  {
    file: 'limit/limit.ts',
    what: 'a limit that is too large is rounded',
    from: '!Number.isSafeInteger(number)',
    to: '!Number.isInteger(number)',
    test: 'test/rules/limit.test.ts',
    foundBy: ['of a preference, a number that is no safe integer is unavailable and never rounded']
  },
  {
    file: 'limit/limit.ts',
    what: 'a text with white space is an integer',
    from: '/^-?\\d+$/.test(value)',
    to: '/^\\s*-?\\d+\\s*$/.test(value)',
    test: 'test/rules/limit.test.ts',
    foundBy: ['of a preference, every other value is unavailable']
  },
  {
    file: 'limit/limit.ts',
    what: 'only the first hyphen in the name of a quota becomes an underscore',
    from: '.replaceAll(/[.-]/g, \'_\')',
    to: '.replace(\'.\', \'_\').replace(\'-\', \'_\')',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: [
      'a limit has its preference and its variable: SERVICE_RATE_LIMIT_CHAT_2_PER_MINUTE'
    ]
  },
  {
    file: 'limit/limit.ts',
    what: 'a week has five days',
    from: 'window: 7 * day',
    to: 'window: 5 * day',
    test: 'test/rules/several-quotas.test.ts',
    foundBy: [
      'a limit has its window and its counters: chat-2.requests.week'
    ]
  },
  {
    file: 'limit/limit.ts',
    what: 'a window of a time zone is kept for no longer than one of 24 hours',
    from: 'return length + longestChange',
    to: 'return length',
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['no sweep removes the counter of a day of 25 hours before it ends']
  },
  {
    file: 'limit/limit.ts',
    what: 'no time zone changes its offset by more than an hour',
    from: 'const longestChange = 3 * hour',
    to: 'const longestChange = hour',
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['no sweep removes the counter of a day of 27 hours before it ends']
  },
  {
    file: 'limit/configuration.ts',
    what: 'the definition precedes the environment',
    from: '{ ...defaults, ...Object.fromEntries(integers) }',
    to: '{ ...Object.fromEntries(integers), ...defaults }',
    test: 'test/rules/limit.test.ts',
    foundBy: [
      'the environment variable, then the option perMinute, then 10 is the configured limit'
    ]
  },
  {
    file: 'limit/configuration.ts',
    what: 'an environment variable beside a function is ignored',
    from: 'if (text !== undefined) throw new EnvironmentError(variable, rule, text)',
    to: 'if (text === \'\') throw new EnvironmentError(variable, rule, text)',
    test: 'test/rules/limit.test.ts',
    foundBy: ['start-up fails if the variable of a limit is set beside a function']
  },
  {
    file: 'limit/limit-reader.ts',
    what: 'a preference of 0 is unset',
    from: 'set === undefined ? readConfigured(caller, log) : effectiveLimit(set)',
    to: 'set === undefined || set === 0 ? readConfigured(caller, log) : effectiveLimit(set)',
    test: 'test/rules/limit.test.ts',
    foundBy: ['of a preference, 0 disables the quota']
  },
  {
    file: 'limit/limit-reader.ts',
    what: 'a function precedes the preference',
    from: 'if (preferences.reader === undefined) return readConfigured(caller, log)',
    to:
      "if (preferences.reader === undefined || typeof configured === 'function') {\n" +
      '      return readConfigured(caller, log)\n    }',
    test: 'test/rules/limit.test.ts',
    foundBy: ['a preference that is set precedes a function, which is then not asked']
  },
  {
    file: 'limit/limit-reader.ts',
    what: 'a function that is a limit can take as long as it likes',
    from: 'preferences.inTime(limit).then(limitIn)',
    to: 'Promise.resolve(limit).then(limitIn)',
    test: 'test/rules/limit.test.ts',
    foundBy: ['a function that is a limit has as much time as a preference reader']
  },
  {
    file: 'limit/limit-reader.ts',
    what: 'a function can return a text',
    from: "typeof value === 'number' ? toInteger(value) : undefined",
    to: 'toInteger(value)',
    test: 'test/rules/limit.test.ts',
    foundBy: ['a function that fails as a limit is a logged 503 that counts nothing']
  },
  {
    file: 'limit/limit-reader.ts',
    what: 'what a function returns below 0 is no limit',
    from: '  return effectiveLimit(limit)\n',
    to: '  return Math.max(0, limit)\n',
    test: 'test/rules/limit.test.ts',
    foundBy: [
      'what a function returns is the limit; 0 disables the quota for its caller, and below 0 it ' +
        'is 1'
    ]
  },
  {
    file: 'limit/preferences.ts',
    what: 'a blank text is an invalid preference',
    from: "value == null || (typeof value === 'string' && value.trim() === '')",
    to: "value == null || value === ''",
    test: 'test/rules/limit.test.ts',
    foundBy: [
      'of a preference, the configured limit applies if it is unset: undefined, null or blank'
    ]
  },
  {
    file: 'limit/preferences.ts',
    what: 'an error of the reader leaves it alone, too',
    from:
      '    // A reader that fails without a timeout delays no request.\n' +
      '    this.#breaker.succeeded(phase)\n',
    to: '    this.#breaker.failed(phase, undefined)\n',
    test: 'test/rules/preferences.test.ts',
    foundBy: ['a reader that answers with errors is asked again for each request']
  },
  {
    file: 'limit/preferences.ts',
    what: 'a reader is left alone after the first timeout',
    from: 'failures: timeoutsBeforeRest,',
    to: 'failures: 1,',
    test: 'test/rules/preferences.test.ts',
    foundBy: [
      'a reader that does not answer in time is warned of once, and is left alone for a second ' +
        'after three times in a row'
    ]
  },
  {
    file: 'limit/preferences.ts',
    what: 'timeouts count that are not in a row',
    from: '    this.#breaker.succeeded(phase)\n    this.#wellSince ??= clock()\n',
    to: '    this.#wellSince ??= clock()\n',
    test: 'test/rules/preferences.test.ts',
    foundBy: ['timeouts between which the reader answers do not leave it alone']
  },
  {
    file: 'limit/preferences.ts',
    what: 'each good answer begins the minute again after which a failure is logged',
    from: 'this.#wellSince ??= clock()',
    to: 'this.#wellSince = clock()',
    test: 'test/rules/preferences.test.ts',
    foundBy: ['a reader that fails after a minute in which it returned limits is warned of again']
  },
  {
    file: 'limit/preferences.ts',
    what: 'the next outage is not logged',
    from: '    this.#wellSince ??= clock()\n',
    to: '',
    test: 'test/rules/preferences.test.ts',
    foundBy: ['a reader that fails after a minute in which it returned limits is warned of again']
  },
  {
    file: 'limit/preferences.ts',
    what: 'each failure is logged',
    from: '    this.#wellSince = undefined\n    if (isNew)',
    to: '    if (isNew)',
    test: 'test/rules/preferences.test.ts',
    foundBy: [
      'a reader that does not answer in time is warned of once, and is left alone for a second ' +
        'after three times in a row'
    ]
  },
  {
    file: 'limit/preferences.ts',
    what: 'only a preference whose outage is new is published',
    from: '    if (isNew) this.#warn(reason, message)\n' +
      '    this.#preferences.channels.preferenceFailures.publish(this.name)\n',
    to:
      '    if (!isNew) return\n' +
      '    this.#warn(reason, message)\n' +
      '    this.#preferences.channels.preferenceFailures.publish(this.name)\n',
    test: 'test/rules/preferences.test.ts',
    foundBy: ['each request for which a preference failed is published, and one warned of']
  },
  {
    file: 'limit/preferences.ts',
    what: 'all preferences share a breaker',
    from: '    return new Preference(this, name, configured)\n',
    to:
      '    const shared = this as { one?: Preference }\n' +
      '    return (shared.one ??= new Preference(this, name, configured))\n',
    test: 'test/rules/preferences.test.ts',
    foundBy: ['a preference that fails or is left alone does not affect another']
  },
  {
    file: 'circuit-breaker.ts',
    what: 'all requests try a reader that was left alone at the same time',
    from: 'if (this.#isBeingTried || (rested >= 0',
    to: 'if ((rested >= 0',
    test: 'test/rules/preferences.test.ts',
    foundBy: [
      'a reader that does not answer in time is warned of once, and is left alone for a second ' +
        'after three times in a row'
    ]
  },
  {
    file: 'limit/calendar.ts',
    what: 'a week begins on Sunday',
    from: '(utc.getUTCDay() + 6) % 7',
    to: 'utc.getUTCDay()',
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['a window is a week, which begins on Monday, and the next one begins when it ends']
  },
  {
    file: 'limit/calendar.ts',
    what: 'each day has 24 hours',
    from: 'const end = this.#startOf(next)\n',
    to: "const end = this.period === 'day' ? start + day : this.#startOf(next)\n",
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['a window is a day of 23 hours, and the next one begins when it ends']
  },
  {
    file: 'limit/calendar.ts',
    what: 'a window that is known stays after its end',
    from: 'time >= this.#known.start && time < this.#known.end',
    to: 'time >= this.#known.start && time <= this.#known.end',
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['a window is a day of UTC, and the next one begins when it ends']
  },
  {
    file: 'limit/calendar.ts',
    what: 'a clock that is set back stays in the later day',
    from: 'time >= this.#known.start && time < this.#known.end',
    to: 'time < this.#known.end',
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['a process whose clock is set back across midnight is in the earlier day']
  },
  {
    file: 'limit/calendar.ts',
    what: 'no zone is farther from UTC than 12 hours',
    from: 'const largestOffset = 16 * hour',
    to: 'const largestOffset = 12 * hour',
    test: 'test/rules/time-zones.test.ts',
    foundBy: [
      'a window is a day of a zone 14 hours before UTC, and the next one begins when it ends'
    ]
  },
  {
    file: 'limit/calendar.ts',
    what: 'the second midnight of a night begins a day again',
    from: 'if (time < start) {',
    to: "if (time < start && this.period !== 'day') {",
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['where clocks are set back across midnight, no day begins twice']
  },
  {
    file: 'limit/calendar.ts',
    what: 'no time zone is forgotten',
    from: '      this.#byTimeZone.delete(oldest)\n',
    to: '',
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['a quota remembers the calendars of 100 time zones, and forgets the oldest']
  },
  {
    file: 'start/windows.ts',
    what: 'the counters of a time zone are those of none',
    from: "const zone = typeof timeZone === 'string' ? timeZone : 'zone'",
    to: "const zone = 'zone'",
    test: 'test/rules/several-quotas.test.ts',
    foundBy: [
      'a limit has its window and its counters: chat-2.requests.day.Europe/Berlin'
    ]
  },
  {
    file: 'start/windows.ts',
    what: 'a month without a time zone is as long as the longest',
    from: "definition.timeZone ?? (period === 'month' ? 'UTC' : undefined)",
    to: 'definition.timeZone',
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['a window is a month, in UTC by default, and the next one begins when it ends']
  },
  {
    file: 'start/windows.ts',
    what: 'the calendar of one caller is that of another',
    from: 'return ({ authentication }) => calendars.of(timeZone(authentication))',
    to:
      'let calendar: Calendar | undefined\n' +
      '  return ({ authentication }) => (calendar ??= calendars.of(timeZone(authentication)))',
    test: 'test/rules/time-zones.test.ts',
    foundBy: [
      'the time zone can be a function of the caller, whose days end at its midnight'
    ]
  },
  {
    file: 'permit/decide.ts',
    what: 'a caller whose time zone has changed waits for the end of the last window alone',
    from: "Math.max(end, required(demand.end, 'the end of a window')) - wallClock()",
    to: 'end - wallClock()',
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['a caller whose time zone changes gets no second window for the same hours']
  },
  {
    file: 'start/host.ts',
    what: 'the reader of the host is used although the option is false',
    from: '  if (given === false) return undefined\n',
    to: '',
    test: 'test/rules/limit.test.ts',
    foundBy: [
      'a reader that the host decorates before or after the plugin is used if the option is ' +
        'not set, and stays decorated'
    ]
  },
  {
    file: 'limit/preferences.ts',
    what: 'timeouts between which the reader fails are in a row',
    from: 'delays no request.\n    this.#breaker.succeeded(phase)',
    to: 'delays no request.\n    this.#breaker.inconclusive(phase)',
    test: 'test/rules/preferences.test.ts',
    foundBy: ['timeouts between which the reader answers with an error do not leave it alone']
  },
  {
    file: 'plugin.ts',
    what: 'a variable of 0 is none',
    from: 'configuration[variableOf(quota.preference)] ?? quota.configured',
    to: 'configuration[variableOf(quota.preference)] || quota.configured',
    test: 'test/rules/limit.test.ts',
    foundBy: ['a variable of 0 disables its quota, whatever the limit in the code']
  },
  {
    file: 'limit/preferences.ts',
    what: 'a process that waits for nothing but a limit ends',
    from: 'promise, { timers })',
    to: 'promise)',
    test: 'test/rules/preferences.test.ts',
    foundBy: [
      'a process with nothing else to do waits for the configured limit, and for the decision ' +
        'without one'
    ]
  },
  {
    file: 'limit/limit.ts',
    what: 'no month is longer than 30 days',
    from: 'window: 31 * day',
    to: 'window: 30 * day',
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['no sweep removes the counter of a month of 31 days before it ends']
  },
  {
    file: 'limit/preferences.ts',
    what: 'a reader that has no value has not recovered',
    from: 'this.#wellSince ??= clock()',
    to: 'if (integer !== undefined) this.#wellSince ??= clock()',
    test: 'test/rules/preferences.test.ts',
    foundBy: ['a reader that fails after a minute in which it had none is warned of again']
  },
  {
    file: 'limit/calendar.ts',
    what: 'the second part of a day is in the window of the first',
    from:
      '    if (time >= end) {\n' +
      '      return { start: end, end: this.#startOf(nextFirstDate(this.period, next)) }\n' +
      '    }\n',
    to: '',
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['where clocks are set back across midnight, no day begins twice']
  },
  {
    file: 'limit/calendar.ts',
    what: 'the rejection of a time zone is not handled',
    from: '      ignoreRejection(timeZone)\n',
    to: '',
    test: 'test/rules/time-zones.test.ts',
    foundBy: [
      'a time zone that throws, or is none, is a 503 and counts nothing; also of an authentication',
      'a time zone that rejects ends no process'
    ]
  }
]
