// The package declares this module by the name that CommonJS knows it by.
declare module 'wink-nlp/utilities/similarity.js' {
  export { default } from 'wink-nlp/utilities/similarity'
}
