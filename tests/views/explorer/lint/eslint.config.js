import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    languageOptions: { globals: globals.browser, ecmaVersion: 2023 },
    rules: { eqeqeq: "error", "no-eval": "error", "no-shadow": "error", "no-var": "error", "prefer-const": "error" },
  },
];
