export {
  PostgresQuotaStore,
  type PostgresQuotaStoreOptions
} from './store/postgres/postgres-store.js'
export {
  postgresSchema,
  type PostgresPool,
  type PostgresSchemaOptions
} from './store/postgres/schema.js'
