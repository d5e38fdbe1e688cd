import { Fragment } from 'preact';
import { Button } from '../ui/button';
import { DialogButtons, show_dialog } from '../ui/dialog';

const kKeys: readonly (readonly [string[], string])[] = [
  [['/'], 'Search'],
  [['j', 'k'], 'Next and previous row'],
  [['Enter'], 'Open the row'],
  [['x'], 'Select the row'],
  [['s'], 'Stop the selected jobs, or this one'],
  [['[', ']'], 'Previous and next tab of a job'],
  [['n', 'N'], 'Logs: next and previous match'],
  [['e'], 'Logs: next error'],
  [['f'], 'Logs: follow'],
  [['←', '→'], 'Charts: along the curve; + - 0 zoom'],
  [['g j'], 'Jobs'],
  [['g c'], 'Cluster'],
  [['t'], 'Light or dark'],
  [['Esc'], 'Close, or clear the selection'],
  [['?'], 'This list'],
];

export function show_help(): void {
  void show_dialog('Keys', (close) => (
    <>
      <dl class="help-list">
        {kKeys.map(([keys, meaning]) => (
          <Fragment key={meaning}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </Fragment>
        ))}
      </dl>
      <DialogButtons>
        <Button onClick={() => close(null)} autofocus>
          Close
        </Button>
      </DialogButtons>
    </>
  ));
}
