/** A label of a quota. */
export type LabelOfQuota = 'quota' | 'unit'

/** The labels of a quota. */
export const labelsOfQuota: readonly LabelOfQuota[] = ['quota', 'unit']

/** The unit of quotas of concurrent requests, which track no callers. */
export const placeUnit = 'concurrent-requests'
