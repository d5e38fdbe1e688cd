import { useEffect, useState } from 'preact/hooks';
import { set_query } from '../router';
import { kStates, type Filters } from './job_rows';

const kTypingMs = 200;

/** A search field that writes into the address when the typing pauses. */
function SearchField({ value }: { value: string }) {
  const [text, set_text] = useState(value);
  useEffect(() => set_text(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => set_query({ q: text }), kTypingMs);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <input
      class="field search"
      type="search"
      data-search
      aria-label="Search jobs by name, id, owner or tag"
      placeholder="Search name, id, owner, tag  ( / )"
      value={text}
      onInput={(event) => set_text(event.currentTarget.value)}
    />
  );
}

export function FilterBar({ filters }: { filters: Filters }) {
  const toggle = (state: string): void => {
    const states = filters.states.includes(state)
      ? filters.states.filter((each) => each !== state)
      : [...filters.states, state];
    set_query({ state: states });
  };
  const fixed = (['user', 'queue', 'tag'] as const).filter((name) => filters[name] !== '');
  return (
    <div class="filter-bar">
      <SearchField value={filters.q} />
      <div class="chips" role="group" aria-label="States shown">
        {kStates.map((state) => (
          <button key={state} type="button" class="chip" aria-pressed={filters.states.includes(state)} onClick={() => toggle(state)}>
            {state}
          </button>
        ))}
        {fixed.map((name) => (
          <button key={name} type="button" class="chip" aria-pressed="true" onClick={() => set_query({ [name]: null })}>
            {name}: {filters[name]} <span aria-hidden="true">×</span>
            <span class="off-screen">, remove this filter</span>
          </button>
        ))}
      </div>
    </div>
  );
}
