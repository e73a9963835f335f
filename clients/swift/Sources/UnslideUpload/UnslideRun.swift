import Foundation

/// Facts of this run that KSCrash does not write itself.
public enum UnslideRun {
    /// The keys to add to KSCrash's user section when the app starts. KSCrash writes the section into the summary of the run.
    ///
    /// With the process id Unslide finds the run whose end a memory exception of MetricKit is about.
    public static var keys: [String: Int] {
        ["process_id": Int(ProcessInfo.processInfo.processIdentifier)]
    }
}
