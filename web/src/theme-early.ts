// Runs before the first paint, so that a chosen theme does not flash.
import { apply_theme, stored_theme } from './theme';

apply_theme(stored_theme());
